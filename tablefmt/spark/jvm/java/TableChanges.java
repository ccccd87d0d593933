package tablefmt;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.IdentityColumnSpec;
import org.apache.spark.sql.connector.catalog.constraints.Check;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MetadataBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Describes CREATE, REPLACE and ALTER TABLE as maps, which are sent to Python as JSON.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class TableChanges {
  private TableChanges() {}

  /** Describes CREATE or REPLACE TABLE: columns, partitioning, properties and constraints. */
  static Map statement(
      Column[] columns, Transform[] partitioning, Map properties, Constraint[] constraints) {
    Map result = new HashMap();
    result.put("columns", schema(columns).json());
    result.put("partitionBy", CatalogEntries.names(partitioning));
    result.put("clusterBy", CatalogEntries.clustering(partitioning));
    result.put("properties", new HashMap(properties));
    List checks = new ArrayList();
    for (int i = 0; constraints != null && i < constraints.length; i++) {
      checks.add(constraint(constraints[i]));
    }
    result.put("constraints", checks);
    return result;
  }

  // In Spark 4.1, CatalogV2Util leaves out expressions and identities of columns.
  private static StructType schema(Column[] columns) {
    StructField[] fields = CatalogV2Util.v2ColumnsToStructType(columns).fields();
    for (int i = 0; i < fields.length; i++) {
      String expression = columns[i].generationExpression();
      IdentityColumnSpec identity = columns[i].identityColumnSpec();
      MetadataBuilder said = new MetadataBuilder().withMetadata(fields[i].metadata());
      if (expression != null) {
        said.putString("GENERATION_EXPRESSION", expression);
      }
      if (identity != null) {
        said.putLong("identity.start", identity.getStart());
        said.putLong("identity.step", identity.getStep());
        said.putBoolean("identity.allowExplicitInsert", identity.isAllowExplicitInsert());
      }
      if (expression != null || identity != null) {
        fields[i] = new StructField(
            fields[i].name(), fields[i].dataType(), fields[i].nullable(), said.build());
      }
    }
    return new StructType(fields);
  }

  static Map constraint(Constraint given) {
    Map result = new HashMap();
    result.put("kind", given.getClass().getSimpleName());
    result.put("name", given.name());
    result.put("enforced", Boolean.valueOf(given.enforced()));
    result.put("condition", given instanceof Check ? ((Check) given).predicateSql() : null);
    return result;
  }

  static List described(TableChange[] changes) {
    List result = new ArrayList();
    for (int i = 0; i < changes.length; i++) {
      result.add(described(changes[i]));
    }
    return result;
  }

  private static Map described(TableChange change) {
    Map result = new HashMap();
    result.put("kind", change.getClass().getSimpleName());
    if (change instanceof TableChange.ColumnChange) {
      result.put("path", ((TableChange.ColumnChange) change).fieldNames());
    }
    if (change instanceof TableChange.AddColumn) {
      TableChange.AddColumn add = (TableChange.AddColumn) change;
      result.put("type", tree(add.dataType()));
      result.put("nullable", Boolean.valueOf(add.isNullable()));
      result.put("default", SparkFields.sql(add.defaultValue()));
      result.put("comment", add.comment());
      place(result, add.position());
    } else if (change instanceof TableChange.RenameColumn) {
      result.put("to", ((TableChange.RenameColumn) change).newName());
    } else if (change instanceof TableChange.UpdateColumnPosition) {
      place(result, ((TableChange.UpdateColumnPosition) change).position());
    } else if (change instanceof TableChange.UpdateColumnType) {
      result.put("type", tree(((TableChange.UpdateColumnType) change).newDataType()));
    } else if (change instanceof TableChange.UpdateColumnNullability) {
      result.put("nullable",
          Boolean.valueOf(((TableChange.UpdateColumnNullability) change).nullable()));
    } else if (change instanceof TableChange.UpdateColumnDefaultValue) {
      result.put("default", ((TableChange.UpdateColumnDefaultValue) change).newDefaultValue());
    } else if (change instanceof TableChange.UpdateColumnComment) {
      result.put("comment", ((TableChange.UpdateColumnComment) change).newComment());
    } else if (change instanceof TableChange.SetProperty) {
      result.put("name", ((TableChange.SetProperty) change).property());
      result.put("value", ((TableChange.SetProperty) change).value());
    } else if (change instanceof TableChange.RemoveProperty) {
      result.put("name", ((TableChange.RemoveProperty) change).property());
      result.put("value", null);
    } else if (change instanceof TableChange.AddConstraint) {
      result.put("constraint", constraint(((TableChange.AddConstraint) change).constraint()));
    } else if (change instanceof TableChange.ClusterBy) {
      result.put("columns",
          CatalogEntries.names(((TableChange.ClusterBy) change).clusteringColumns()));
    } else if (change instanceof TableChange.DropConstraint) {
      result.put("name", ((TableChange.DropConstraint) change).name());
      result.put("ifExists", Boolean.valueOf(((TableChange.DropConstraint) change).ifExists()));
    }
    return result;
  }

  private static void place(Map result, TableChange.ColumnPosition position) {
    result.put("first", Boolean.valueOf(position instanceof TableChange.First));
    result.put("after", position instanceof TableChange.After
        ? ((TableChange.After) position).column() : null);
  }

  private static JsonNode tree(DataType type) {
    try {
      return (JsonNode) new ObjectMapper().readTree(type.json());
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }
}
