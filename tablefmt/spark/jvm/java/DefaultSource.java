package tablefmt;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.sources.RelationProvider;
import org.apache.spark.sql.sources.SchemaRelationProvider;
import org.apache.spark.sql.sources.StreamSinkProvider;
import org.apache.spark.sql.sources.StreamSourceProvider;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * `format("tablefmt")` on a path. Reads and writes use the first version of Spark's data source
 * interface, which has all save modes. The second version tells SQL that the catalog creates
 * tables.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class DefaultSource implements DataSourceRegister, TableProvider, RelationProvider,
    SchemaRelationProvider, CreatableRelationProvider, StreamSourceProvider, StreamSinkProvider {

  public String shortName() {
    return "tablefmt";
  }

  public BaseRelation createRelation(
      SQLContext context, scala.collection.immutable.Map parameters) {
    return (BaseRelation) Bridge.call("load", new Object[] {
        context.sparkSession(), ScalaValues.map(parameters), null});
  }

  public BaseRelation createRelation(SQLContext context,
      scala.collection.immutable.Map parameters, StructType expected) {
    return (BaseRelation) Bridge.call("load", new Object[] {
        context.sparkSession(), ScalaValues.map(parameters), expected.json()});
  }

  // Python refuses unsupported types, and names the column.
  public boolean supportsDataType(DataType type) {
    return true;
  }

  // Spark asks for the columns when a stream is loaded, and for the source when its query starts,
  // with the same parameters. The columns must be those of the load.
  public scala.Tuple2 sourceSchema(SQLContext context, scala.Option schema, String name,
      scala.collection.immutable.Map parameters) {
    String said = (String) Bridge.call("stream_columns", new Object[] {
        context.sparkSession(), ScalaValues.map(parameters),
        schema.isDefined() ? ((StructType) schema.get()).json() : null});
    int end = said.indexOf('\n');
    Loaded.remember(parameters, said.substring(0, end));
    return new scala.Tuple2(name, DataType.fromJson(said.substring(end + 1)));
  }

  public Source createSource(SQLContext context, String place, scala.Option schema, String name,
      scala.collection.immutable.Map parameters) {
    return (Source) Bridge.call("stream", new Object[] {
        context.sparkSession(), ScalaValues.map(parameters), Loaded.with(parameters)});
  }

  public Sink createSink(SQLContext context, scala.collection.immutable.Map parameters,
      scala.collection.immutable.Seq partitionBy, OutputMode mode) {
    String[] by = new String[partitionBy.size()];
    for (int i = 0; i < by.length; i++) {
      by[i] = (String) partitionBy.apply(i);
    }
    return new StreamSink(context, ScalaValues.map(parameters), by, mode);
  }

  public BaseRelation createRelation(SQLContext context, SaveMode mode,
      scala.collection.immutable.Map parameters, Dataset data) {
    Bridge.call("save", new Object[] {
        context.sparkSession(), mode.name(), ScalaValues.map(parameters), data});
    return new Written(context, data.schema());
  }

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return isNative(options.get("path"), options.asCaseSensitiveMap())
        ? new StructType() : arrow().inferSchema(new CaseInsensitiveStringMap(zoned(options.asCaseSensitiveMap())));
  }

  public boolean supportsExternalMetadata() {
    return true;
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map properties) {
    // A stream always uses this sink, for both backends: the Python sink does not know the query.
    return SparkCallers.isStreamWriter()
        || isNative(new CaseInsensitiveStringMap(properties).get("path"), properties)
        ? new PlaceholderTable(schema, partitioning)
        : arrow().getTable(schema, partitioning, zoned(properties));
  }

  // Python workers do not know the session: see SESSION_ZONE in pyspark_wrappers.py.
  private static Map zoned(Map options) {
    Map result = new java.util.HashMap(options);
    result.put("__session_zone", SparkSettings.zone());
    return result;
  }

  private static boolean isNative(String path, Map options) {
    return path == null || Boolean.TRUE.equals(Bridge.call("reads_files", new Object[] {
            SparkQueries.active(), path, new java.util.HashMap(options)}));
  }

  private static PythonDataSourceV2 arrow() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName("tablefmt_arrow");
    return source;
  }

  /** The columns of loaded streams, by the identity of the parameters object. */
  private static final class Loaded extends WeakReference {
    private static final List KNOWN = new ArrayList();

    private final String said;

    private Loaded(Object parameters, String said) {
      super(parameters);
      this.said = said;
    }

    static void remember(Object parameters, String said) {
      synchronized (KNOWN) {
        Iterator each = KNOWN.iterator();
        while (each.hasNext()) {
          Object known = ((Loaded) each.next()).get();
          if (known == null || known == parameters) {
            each.remove();
          }
        }
        KNOWN.add(new Loaded(parameters, said));
      }
    }

    /** Returns null if the parameters are not known. */
    static String with(Object parameters) {
      synchronized (KNOWN) {
        for (int i = 0; i < KNOWN.size(); i++) {
          Loaded one = (Loaded) KNOWN.get(i);
          if (one.get() == parameters) {
            return one.said;
          }
        }
        return null;
      }
    }
  }

  /** The relation that Spark expects as the result of a write. */
  private static class Written extends BaseRelation {
    private final SQLContext context;
    private final StructType schema;

    Written(SQLContext context, StructType schema) {
      this.context = context;
      this.schema = schema;
    }

    public SQLContext sqlContext() {
      return context;
    }

    public StructType schema() {
      return schema;
    }
  }
}
