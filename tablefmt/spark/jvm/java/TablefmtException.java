package tablefmt;

/** An error of Python, as text that Python can parse again. */
public class TablefmtException extends RuntimeException {
  public TablefmtException(String message) {
    super(message);
  }
}
