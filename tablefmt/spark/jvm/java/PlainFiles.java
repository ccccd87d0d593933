package tablefmt;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.LinkOption;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;

/**
 * Checks data files on a local disk before Spark opens them, because Hadoop follows links and waits
 * for named pipes. Checks each file, and each folder below the table's root, once (STO-2, DAT-5).
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public final class PlainFiles {
  private static final LinkOption[] AS_IT_IS = new LinkOption[] {LinkOption.NOFOLLOW_LINKS};
  private static volatile Function python;

  private final String root;
  private final Map folders = new HashMap();
  private long modified;

  /** Used only for `connect`. */
  public PlainFiles() {
    this.root = null;
  }

  PlainFiles(String root) {
    this.root = root;
  }

  /**
   * Sets the function that describes problems.
   *
   * @param answer takes a table's root and the path of a file below it, and returns an error, or
   *     null if the file is valid
   */
  public void connect(Function answer) {
    python = answer;
  }

  /**
   * Refuses a path below the root that is not a regular file, or that goes through a link.
   *
   * @return the time in ms at which the file was written; 0 for a missing file
   */
  long check(String name) {
    modified = 0L;
    if (!isPlain(name)) {
      Bridge.checked(python.apply(new Object[] {root, name}));
    }
    return modified;
  }

  // Spark reports a missing file: its version may have expired meanwhile.
  private boolean isPlain(String name) {
    int end = name.lastIndexOf('/');
    if (end >= 0 && !isFolder(name.substring(0, end))) {
      return false;
    }
    return is(name, false);
  }

  private boolean isFolder(String name) {
    Object known = folders.get(name);
    if (known == null) {
      int end = name.lastIndexOf('/');
      known = Boolean.valueOf(
          (end < 0 || isFolder(name.substring(0, end))) && is(name, true));
      folders.put(name, known);
    }
    return ((Boolean) known).booleanValue();
  }

  private boolean is(String name, boolean folder) {
    try {
      BasicFileAttributes found = attributes(name);
      modified = found.lastModifiedTime().toMillis();
      return folder ? found.isDirectory() : found.isRegularFile();
    } catch (NoSuchFileException missing) {
      return true;
    } catch (IOException unknown) {
      return false;
    } catch (InvalidPathException unknown) {
      return false;
    }
  }

  private BasicFileAttributes attributes(String name) throws IOException {
    Path path = Paths.get(root + "/" + name, new String[0]);
    return (BasicFileAttributes) Files.readAttributes(path, BasicFileAttributes.class, AS_IT_IS);
  }
}
