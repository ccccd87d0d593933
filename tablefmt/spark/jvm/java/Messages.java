package tablefmt;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.SparkSession;

/**
 * Checks requests to Python, and its answers, against messages.schema.json. Implements the part of
 * JSON Schema that this file uses, like callbacks.py on the other side.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
public final class Messages {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static volatile JsonNode schema;

  /** @param text the content of messages.schema.json */
  public void connect(String text) throws Exception {
    schema = (JsonNode) JSON.readTree(text);
  }

  /** For tests: returns the problem of a JSON value of a shape, or null if it is valid. */
  public String problem(String shape, String json) throws Exception {
    return wrong((JsonNode) JSON.readTree(json), shape(shape), "it");
  }

  /** Returns the arguments of a verb for Python, with maps and arrays of text as JSON. */
  static Object[] arguments(String verb, Object[] given) {
    JsonNode known = at(at(schema, "verbs"), verb);
    if (known == null) {
      throw new IllegalStateException("Python has no verb " + verb);
    }
    JsonNode kinds = at(known, "arguments");
    if (given.length > kinds.size()) {
      throw new IllegalStateException(verb + " takes " + kinds.size() + " arguments");
    }
    Object[] plain = new Object[given.length];
    for (int i = 0; i < kinds.size(); i++) {
      String kind = text(kinds.get(i));
      if (i < given.length) {
        plain[i] = argument(verb, kind, given[i]);
      } else if (!kind.endsWith("?")) {
        throw new IllegalStateException(verb + " lacks argument " + i);
      }
    }
    return plain;
  }

  private static Object argument(String verb, String kind, Object given) {
    if (given == null && kind.endsWith("?")) {
      return null;
    }
    String wanted = kind.endsWith("?") ? kind.substring(0, kind.length() - 1) : kind;
    if (wanted.startsWith("#")) {
      return json(verb, wanted, given);
    }
    boolean fits = wanted.equals("session") ? given instanceof SparkSession
        : wanted.equals("rows") ? given instanceof Dataset
        : wanted.equals("command") ? given instanceof RowCommand
        : wanted.equals("boolean") ? given instanceof Boolean
        : wanted.equals("long") ? given instanceof Long : given instanceof String;
    if (!fits) {
      throw new IllegalStateException(verb + " takes " + kind + ", not " + given);
    }
    return given;
  }

  /** Returns a value, or text that is already JSON, as JSON of a shape. */
  static String json(String place, String shape, Object given) {
    try {
      JsonNode tree = given instanceof String
          ? (JsonNode) JSON.readTree((String) given) : (JsonNode) JSON.valueToTree(given);
      check(place, shape, tree);
      return given instanceof String ? (String) given : JSON.writeValueAsString(given);
    } catch (java.io.IOException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Parses Python's message of a step, with its shape in `steps`. */
  static JsonNode step(String step, String json) {
    return read(step, text(at(at(schema, "steps"), step)), json);
  }

  /** Parses Python's answer to a verb; null if there is none. */
  static JsonNode answer(String verb, Object json) {
    String kind = text(at(at(at(schema, "verbs"), verb), "answer"));
    return json == null && kind.endsWith("?")
        ? null : read(verb, kind.endsWith("?") ? kind.substring(0, kind.length() - 1) : kind,
            (String) json);
  }

  private static JsonNode read(String place, String shape, String json) {
    try {
      JsonNode tree = (JsonNode) JSON.readTree(json);
      check(place, shape, tree);
      return tree;
    } catch (java.io.IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private static void check(String place, String shape, JsonNode tree) {
    String wrong = wrong(tree, shape(shape), place);
    if (wrong != null) {
      throw new IllegalStateException(wrong);
    }
  }

  private static JsonNode shape(String name) {
    return at(at(schema, "$defs"), name.substring(1));
  }

  private static String wrong(JsonNode given, JsonNode shape, String place) {
    if (shape.has("$ref")) {
      String name = text(at(shape, "$ref"));
      return wrong(given, shape("#" + name.substring(name.lastIndexOf('/') + 1)), place);
    }
    if (shape.has("enum")) {
      for (int i = 0; i < at(shape, "enum").size(); i++) {
        if (text(at(shape, "enum").get(i)).equals(given.isTextual() ? given.asText() : null)) {
          return null;
        }
      }
      return place + " is " + given;
    }
    if (!isOfType(given, at(shape, "type"))) {
      return place + " is " + given + ", not " + at(shape, "type");
    }
    return given.isObject() ? wrongFields(given, shape, place)
        : given.isArray() ? wrongItems(given, shape, place) : null;
  }

  private static String wrongFields(JsonNode given, JsonNode shape, String place) {
    JsonNode required = at(shape, "required");
    for (int i = 0; required != null && i < required.size(); i++) {
      if (!given.has(text(required.get(i)))) {
        return place + " lacks " + text(required.get(i));
      }
    }
    JsonNode known = at(shape, "properties");
    JsonNode others = at(shape, "additionalProperties");
    Iterator fields = given.fields();
    while (fields.hasNext()) {
      Map.Entry field = (Map.Entry) fields.next();
      String name = (String) field.getKey();
      JsonNode wanted = known == null ? null : at(known, name);
      if (wanted == null && others != null && !others.isObject()) {
        return place + " has " + name;
      }
      wanted = wanted == null ? others : wanted;
      String wrong = wanted == null
          ? null : wrong((JsonNode) field.getValue(), wanted, place + "." + name);
      if (wrong != null) {
        return wrong;
      }
    }
    return null;
  }

  private static String wrongItems(JsonNode given, JsonNode shape, String place) {
    JsonNode first = at(shape, "prefixItems");
    JsonNode others = at(shape, "items");
    for (int i = 0; i < given.size(); i++) {
      JsonNode wanted = first != null && i < first.size() ? (JsonNode) first.get(i) : others;
      String wrong = wanted == null
          ? null : wrong((JsonNode) given.get(i), wanted, place + "[" + i + "]");
      if (wrong != null) {
        return wrong;
      }
    }
    return null;
  }

  private static boolean isOfType(JsonNode given, JsonNode types) {
    if (types.isTextual()) {
      return isOf(given, types.asText());
    }
    for (int i = 0; i < types.size(); i++) {
      if (isOf(given, text(types.get(i)))) {
        return true;
      }
    }
    return false;
  }

  private static boolean isOf(JsonNode given, String type) {
    return type.equals("object") ? given.isObject() : type.equals("array") ? given.isArray()
        : type.equals("string") ? given.isTextual() : type.equals("boolean") ? given.isBoolean()
        : type.equals("integer") ? given.isIntegralNumber() : given.isNull();
  }

  // Janino sees the bridge method that returns the supertype.
  private static JsonNode at(JsonNode of, String name) {
    return (JsonNode) of.get(name);
  }

  private static String text(Object node) {
    return ((JsonNode) node).asText();
  }
}
