package tablefmt;

import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.util.QuotingUtils$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetUtils$;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.sources.StringContains;
import org.apache.spark.sql.sources.StringEndsWith;
import org.apache.spark.sql.sources.StringStartsWith;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's Parquet format for files with other column names than the table. The reader gets the
 * names of the files. Rows have no names, so results need no renaming. Exists only on the driver:
 * the reader that it creates is Spark's own.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class SnapshotFormat extends ParquetFileFormat {
  // Spark's reader fills this column itself.
  private static final String ROW_INDEX = SparkScans.rowIndex();

  // See native_relation.py.
  private static final String IN_EVERY_FILE = "tablefmt.in_every_file";

  private final StructType table;
  private final StructType files;

  /**
   * @param table all columns, with the names that queries use
   * @param files the same columns in the same order, with the names in the files
   */
  public SnapshotFormat(StructType table, StructType files) {
    this.table = table;
    this.files = files;
  }

  public scala.Function1 buildReaderWithPartitionValues(SparkSession session, StructType data,
      StructType partitions, StructType required, scala.collection.immutable.Seq filters,
      scala.collection.immutable.Map options, Configuration hadoop) {
    checkReader(session, partitions, required);
    List kept = new ArrayList();
    for (int i = 0; i < filters.size(); i++) {
      Filter renamed = filter((Filter) filters.apply(i));
      if (renamed != null) {
        kept.add(renamed);
      }
    }
    scala.collection.immutable.Seq pushed = (scala.collection.immutable.Seq)
        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(kept.toArray());
    return new ParquetFileFormat().buildReaderWithPartitionValues(session,
        columns(data, table, files), partitions, columns(required, table, files), pushed, options,
        hadoop);
  }

  public boolean equals(Object other) {
    return other instanceof SnapshotFormat && files.equals(((SnapshotFormat) other).files)
        && table.equals(((SnapshotFormat) other).table);
  }

  public int hashCode() {
    return files.hashCode();
  }

  // Spark's other reader returns NULL if a file lacks such a column.
  private void checkReader(SparkSession session, StructType partitions, StructType required) {
    StructType read = partitions;
    String named = null;
    for (StructField field : required.fields()) {
      read = read.add(field);
      int at = field.name().equals(ROW_INDEX) ? -1 : position(field.name(), table);
      if (at >= 0 && files.fields()[at].metadata().contains(IN_EVERY_FILE)) {
        named = field.name();
      }
    }
    if (named != null && !ParquetUtils$.MODULE$.isBatchReadSupportedForSchema(
        session.sessionState().conf(), read)) {
      throw new UnsupportedOperationException("the table is partitioned by the floating-point "
          + "column " + named + ", which Spark can only read with its vectorized Parquet reader; "
          + "set spark.sql.parquet.enableVectorizedReader to true, or read through Arrow");
    }
  }

  private static int position(String name, StructType among) {
    StructField[] fields = among.fields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().equals(name)) {
        return i;
      }
    }
    return -1;
  }

  // An unknown name must not reach the reader, which would return NULL for it.
  private static StructType columns(StructType asked, StructType table, StructType files) {
    StructField[] fields = asked.fields();
    StructField[] result = new StructField[fields.length];
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().equals(ROW_INDEX)) {
        result[i] = fields[i];
        continue;
      }
      int at = position(fields[i].name(), table);
      if (at < 0) {
        throw new IllegalStateException("the table has no column " + fields[i].name());
      }
      result[i] = new StructField(files.fields()[at].name(),
          type(fields[i].dataType(), table.fields()[at].dataType(), files.fields()[at].dataType()),
          nullable(fields[i], files.fields()[at]), metadata(fields[i], files.fields()[at]));
    }
    return new StructType(result);
  }

  // The reader accepts a file without the column only if the column is nullable.
  private static boolean nullable(StructField asked, StructField file) {
    return asked.nullable() && !file.metadata().contains(IN_EVERY_FILE)
        || file.getExistenceDefaultValue().isDefined();
  }

  // Spark's reader finds the value of a column for files without the column here.
  private static Metadata metadata(StructField asked, StructField file) {
    scala.Option value = file.getExistenceDefaultValue();
    return value.isDefined()
        ? new MetadataBuilder().withMetadata(asked.metadata())
            .putString("EXISTS_DEFAULT", (String) value.get()).build()
        : asked.metadata();
  }

  private static DataType type(DataType asked, DataType table, DataType files) {
    // Spark may request only some paths of a variant, as a struct.
    if (asked instanceof StructType && table instanceof StructType) {
      return columns((StructType) asked, (StructType) table, (StructType) files);
    }
    if (asked instanceof ArrayType) {
      return new ArrayType(type(((ArrayType) asked).elementType(),
          ((ArrayType) table).elementType(), ((ArrayType) files).elementType()),
          ((ArrayType) asked).containsNull());
    }
    if (asked instanceof MapType) {
      MapType map = (MapType) asked;
      return new MapType(
          type(map.keyType(), ((MapType) table).keyType(), ((MapType) files).keyType()),
          type(map.valueType(), ((MapType) table).valueType(), ((MapType) files).valueType()),
          map.valueContainsNull());
    }
    return asked;
  }

  /** Returns a field's path with the names of the files, quoted as in filters; null if unknown. */
  private String name(String quoted) {
    scala.collection.immutable.Seq parts;
    try {
      parts = ((ParserInterface) CatalystSqlParser$.MODULE$).parseMultipartIdentifier(quoted);
    } catch (ParseException unreadable) {
      return null;
    }
    StringBuilder result = new StringBuilder();
    DataType names = table;
    DataType physical = files;
    for (int i = 0; i < parts.size(); i++) {
      int at = names instanceof StructType ? position((String) parts.apply(i), (StructType) names) : -1;
      if (at < 0) {
        return null;
      }
      StructField field = ((StructType) physical).fields()[at];
      result.append(i == 0 ? "" : ".")
          .append(QuotingUtils$.MODULE$.quoteIfNeeded(field.name()));
      names = ((StructType) names).fields()[at].dataType();
      physical = field.dataType();
    }
    return result.toString();
  }

  /** Returns a filter with the names of the files; null to omit it, which only costs time. */
  private Filter filter(Filter given) {
    if (given instanceof And || given instanceof Or) {
      boolean and = given instanceof And;
      Filter left = filter(and ? ((And) given).left() : ((Or) given).left());
      Filter right = filter(and ? ((And) given).right() : ((Or) given).right());
      if (left == null || right == null) {
        return null;
      }
      return and ? (Filter) new And(left, right) : (Filter) new Or(left, right);
    }
    if (given instanceof Not) {
      Filter child = filter(((Not) given).child());
      return child == null ? null : new Not(child);
    }
    String[] named = given.references();
    String to = named.length == 1 ? name(named[0]) : null;
    return to == null ? null : leaf(given, to);
  }

  private static Filter leaf(Filter given, String name) {
    if (given instanceof EqualTo) {
      return new EqualTo(name, ((EqualTo) given).value());
    }
    if (given instanceof EqualNullSafe) {
      return new EqualNullSafe(name, ((EqualNullSafe) given).value());
    }
    if (given instanceof GreaterThan) {
      return new GreaterThan(name, ((GreaterThan) given).value());
    }
    if (given instanceof GreaterThanOrEqual) {
      return new GreaterThanOrEqual(name, ((GreaterThanOrEqual) given).value());
    }
    if (given instanceof LessThan) {
      return new LessThan(name, ((LessThan) given).value());
    }
    if (given instanceof LessThanOrEqual) {
      return new LessThanOrEqual(name, ((LessThanOrEqual) given).value());
    }
    if (given instanceof In) {
      return new In(name, ((In) given).values());
    }
    if (given instanceof IsNull) {
      return new IsNull(name);
    }
    if (given instanceof IsNotNull) {
      return new IsNotNull(name);
    }
    if (given instanceof StringStartsWith) {
      return new StringStartsWith(name, ((StringStartsWith) given).value());
    }
    if (given instanceof StringEndsWith) {
      return new StringEndsWith(name, ((StringEndsWith) given).value());
    }
    if (given instanceof StringContains) {
      return new StringContains(name, ((StringContains) given).value());
    }
    return null;
  }
}
