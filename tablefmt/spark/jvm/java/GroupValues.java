package tablefmt;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal$;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Parses the values that all rows of a group of files share. relation_columns.py writes the text.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class GroupValues {
  private GroupValues() {}

  /** Returns a row for each group, in order. */
  static InternalRow[] read(String text, StructType partitions) {
    // A group with a single column may be an empty string.
    return read(text.split("\n", -1), partitions);
  }

  /** Returns a row for each line, in order. */
  static InternalRow[] read(String[] lines, StructType partitions) {
    StructField[] fields = partitions.fields();
    if (fields.length == 0) {
      return new InternalRow[] {InternalRow.empty()};
    }
    InternalRow[] result = new InternalRow[lines.length];
    for (int i = 0; i < lines.length; i++) {
      String[] parts = lines[i].split("\t", -1);
      Object[] row = new Object[fields.length];
      for (int c = 0; c < fields.length; c++) {
        row[c] = parts[c].equals("\\N") ? null : value(parts[c], fields[c].dataType());
      }
      result[i] = new GenericInternalRow(row);
    }
    return result;
  }

  private static Object value(String text, DataType type) {
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return Decimal$.MODULE$.apply(
          new java.math.BigDecimal(text), decimal.precision(), decimal.scale());
    }
    String kind = type.typeName();
    if (kind.equals("string")) {
      return UTF8String.fromString(unescaped(text));
    }
    if (kind.equals("binary")) {
      byte[] bytes = new byte[text.length() / 2];
      for (int i = 0; i < bytes.length; i++) {
        bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
      }
      return bytes;
    }
    if (kind.equals("boolean")) {
      return Boolean.valueOf(text);
    }
    if (kind.equals("byte")) {
      return Byte.valueOf(text);
    }
    if (kind.equals("short")) {
      return Short.valueOf(text);
    }
    if (kind.equals("integer") || kind.equals("date")) {
      return Integer.valueOf(text);
    }
    if (kind.equals("long") || kind.startsWith("timestamp")) {
      return Long.valueOf(text);
    }
    if (kind.equals("float")) {
      return Float.valueOf((float) real(text));
    }
    if (kind.equals("double")) {
      return Double.valueOf(real(text));
    }
    throw new IllegalStateException("type " + kind + " is not supported for a partition column");
  }

  private static double real(String text) {
    return text.equals("nan") ? Double.NaN : text.endsWith("inf")
        ? text.startsWith("-") ? Double.NEGATIVE_INFINITY : Double.POSITIVE_INFINITY
        : Double.parseDouble(text);
  }

  private static String unescaped(String text) {
    if (text.indexOf('\\') < 0) {
      return text;
    }
    StringBuilder result = new StringBuilder();
    for (int i = 0; i < text.length(); i++) {
      char next = text.charAt(i);
      if (next == '\\') {
        i++;
        next = text.charAt(i) == 't' ? '\t' : text.charAt(i) == 'n' ? '\n' : '\\';
      }
      result.append(next);
    }
    return result.toString();
  }

  /** Returns the values of a row and one more value. */
  static InternalRow with(InternalRow values, StructType partitions, Object more) {
    StructField[] fields = partitions.fields();
    Object[] row = new Object[fields.length + 1];
    for (int c = 0; c < fields.length; c++) {
      row[c] = values.get(c, fields[c].dataType());
    }
    row[fields.length] = more;
    return new GenericInternalRow(row);
  }
}
