package tablefmt;

/** An error of Python's, as text that Python can read again. */
public class TablefmtException extends RuntimeException {
  public TablefmtException(String message) {
    super(message);
  }
}
