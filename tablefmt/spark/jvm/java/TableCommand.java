package tablefmt;

import java.util.Map;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.CheckConstraint;
import org.apache.spark.sql.catalyst.plans.logical.AddCheckConstraint;
import org.apache.spark.sql.catalyst.plans.logical.CreateTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ReplaceTable;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedTableSpec;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.execution.command.CreateTableLikeCommand;
import org.apache.spark.sql.execution.datasources.SaveIntoDataSourceCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * Statements for which Spark has its own plan that does not work for our tables. For ADD CONSTRAINT
 * … CHECK, Spark would search its own kinds of files for violations. For CREATE TABLE … LIKE, it
 * would create only an entry of the catalog and no table.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public class TableCommand extends SaveIntoDataSourceCommand {
  private static final scala.collection.immutable.Map NO_OPTIONS =
      (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty();

  private final LogicalPlan plan;
  private final DataSourceV2Relation target;

  private TableCommand(LogicalPlan plan, DataSourceV2Relation target) {
    super(plan, new DefaultSource(), NO_OPTIONS, SaveMode.Append);
    this.plan = plan;
    this.target = target;
  }

  /** @return null for other statements, unresolved ones, and other formats' tables */
  static LogicalPlan of(LogicalPlan plan) {
    if (plan instanceof AddCheckConstraint) {
      DataSourceV2Relation found = SparkScans.relation(((AddCheckConstraint) plan).child());
      // Spark does not resolve a query in a condition. Python refuses it.
      return found == null || !plan.resolved() && !queries((AddCheckConstraint) plan)
          ? null : new TableCommand(plan, found);
    }
    if (plan instanceof CreateTableLikeCommand && makesOurs((CreateTableLikeCommand) plan)) {
      return new TableCommand(plan, null);
    }
    if (plan instanceof CreateTable) {
      check(((CreateTable) plan).tableSpec());
    } else if (plan instanceof ReplaceTable) {
      check(((ReplaceTable) plan).tableSpec());
    }
    return null;
  }

  private static boolean queries(AddCheckConstraint plan) {
    return SparkExpressions.hasSubquery(plan.checkConstraint().child());
  }

  /** Checks a new table: Spark reports a query in a condition as an internal error. */
  private static void check(Object said) {
    if (!(said instanceof UnresolvedTableSpec)) {
      return;
    }
    UnresolvedTableSpec spec = (UnresolvedTableSpec) said;
    if (!spec.provider().isDefined()
        || !"tablefmt".equalsIgnoreCase(spec.provider().get().toString())) {
      return;
    }
    for (int i = 0; i < spec.constraints().size(); i++) {
      if (spec.constraints().apply(i) instanceof CheckConstraint) {
        CheckConstraint one = (CheckConstraint) spec.constraints().apply(i);
        if (SparkExpressions.hasSubquery(one.child())) {
          Bridge.call("queried", new Object[] {one.condition()});
        }
      }
    }
  }

  private static boolean makesOurs(CreateTableLikeCommand like) {
    if (like.provider().isDefined()) {
      return "tablefmt".equalsIgnoreCase(like.provider().get().toString());
    }
    CatalogTable source = source(like);
    return source != null && !like.fileFormat().inputFormat().isDefined()
        && source.provider().isDefined()
        && "tablefmt".equalsIgnoreCase(source.provider().get().toString());
  }

  private static CatalogTable source(CreateTableLikeCommand like) {
    org.apache.spark.sql.catalyst.catalog.SessionCatalog catalog =
        SparkQueries.active().sessionState().catalog();
    try {
      return catalog.getTempViewOrPermanentTableMetadata(like.sourceTable());
    } catch (Exception missing) {
      return null;
    }
  }

  public scala.collection.immutable.Seq run(SparkSession session) {
    try {
      if (plan instanceof AddCheckConstraint) {
        CheckConstraint check = ((AddCheckConstraint) plan).checkConstraint();
        catalog().alterTable((Identifier) target.identifier().get(), new TableChange[] {
            TableChange.addConstraint(check.toV2Constraint(), (String) null)});
      } else {
        like((CreateTableLikeCommand) plan);
      }
    } catch (Exception failed) {
      org.apache.spark.unsafe.Platform.throwException(failed);
    }
    return ScalaValues.seq(new Object[0]);
  }

  /** Returns our catalog. The session's setting may name another one, which stands above it. */
  private static SessionCatalog catalog() {
    return (SessionCatalog) SparkFields.ownCatalog(SparkQueries.active());
  }

  private void like(CreateTableLikeCommand like) throws Exception {
    org.apache.spark.sql.catalyst.catalog.SessionCatalog known =
        SparkQueries.active().sessionState().catalog();
    TableIdentifier named = known.qualifyIdentifier(like.targetTable());
    if (like.ifNotExists() && known.tableExists(named)) {
      return;
    }
    Map properties = ScalaValues.map(like.properties());
    Map options = ScalaValues.map(like.fileFormat().properties());
    java.util.Iterator names = options.keySet().iterator();
    while (names.hasNext()) {
      String name = (String) names.next();
      properties.put(TableCatalog.OPTION_PREFIX + name, options.get(name));
    }
    if (like.fileFormat().locationUri().isDefined()) {
      properties.put(TableCatalog.PROP_LOCATION,
          new org.apache.hadoop.fs.Path((java.net.URI) like.fileFormat().locationUri().get())
              .toString());
    }
    properties.put(TableCatalog.PROP_PROVIDER, "tablefmt");
    catalog().like(
        Identifier.of(new String[] {(String) named.database().get()}, named.table()), properties,
        known.getTempViewOrPermanentTableMetadata(like.sourceTable()));
  }

  // Immutable. Spark's copy would need a constructor that this class does not have.
  public LogicalPlan clone() {
    return this;
  }

  public scala.collection.immutable.Seq innerChildren() {
    return ScalaValues.seq(new Object[0]);
  }

  public String nodeName() {
    return "tablefmt " + (target == null ? "CREATE TABLE LIKE" : "ADD CONSTRAINT");
  }

  public String simpleString(int fields) {
    return nodeName();
  }
}
