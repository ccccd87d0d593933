package tablefmt;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap;

/**
 * Converts between Scala and Java values.
 *
 * Janino compiles this: no lambdas, no generic inference.
 */
final class ScalaValues {
  private ScalaValues() {}

  static scala.collection.immutable.Seq seq(Object[] items) {
    return (scala.collection.immutable.Seq)
        scala.collection.immutable.ArraySeq$.MODULE$.unsafeWrapArray(items);
  }

  /** Returns a Java map of a Scala map, with the original case of its keys. */
  static Map map(scala.collection.immutable.Map given) {
    scala.collection.immutable.Map written = given instanceof CaseInsensitiveMap
        ? ((CaseInsensitiveMap) given).originalMap() : given;
    Map result = new HashMap();
    scala.collection.Iterator pairs = written.iterator();
    while (pairs.hasNext()) {
      scala.Tuple2 pair = (scala.Tuple2) pairs.next();
      result.put(pair._1(), pair._2());
    }
    return result;
  }
}
