"""Measure Spark's planning for a table of many files that are not opened: seconds to the splits.

    python -m benchmarks.spark_plan [--files 100000] [--rounds 5] [--jars FOLDER]

The table has N files, 1,000 partitions, and 10 columns with bounds. A filter keeps 100 files. No
file exists, so the metadata alone counts. With `--jars`, Delta 4.4 and Iceberg 1.12 plan tables of
the same files, a JVM each; they need PySpark 4.1. `delta tuned` has its state in two partitions.

- Cold: the log is not cached, in a warm session. The log ends in a checkpoint (tablefmt, Delta), or
  its manifests were rewritten (Iceberg, which caches nothing).
- After an append: the same query after a commit of one row. Another process appends to tablefmt's
  table; the peers' appends go through the same session.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import tablefmt.spark
from benchmarks.checkpoints import COLUMNS, PARTITIONS, build
from benchmarks.harness import in_own_process, save, summary
from benchmarks.spark_peers import settings

KEPT = 100
COMMITS = 100
ROWS = 1000
"""Rows that each file claims to have."""

KINDS = ("tablefmt", "delta", "delta tuned", "iceberg")

COLD, AGAIN = "filter that keeps 100 files, cold", "filter, second run"
APPENDED, ALL = "filter, after an append", "no filter"

NAMES = [f"c{at}" for at in range(1, COLUMNS + 1)]

GENERATOR = """
package benchmarks;
import java.util.HashMap;
import org.apache.iceberg.*;
import org.apache.iceberg.types.*;

public class Files {
  public static void add(
      Table table, String root, int low, int high, int all, int parts, int rows) {
    AppendFiles append = table.newFastAppend();
    for (int i = low; i < high; i++) {
      HashMap least = new HashMap(), most = new HashMap(), values = new HashMap();
      HashMap nulls = new HashMap();
      for (int column = 1; column <= COLUMNS; column++) {
        long first = column == 1 ? (long) i * rows : mixed(i * 31L + column);
        long last = first + rows - 1;
        Integer id = Integer.valueOf(column);
        values.put(id, Long.valueOf(rows));
        nulls.put(id, Long.valueOf(0L));
        least.put(id, Conversions.toByteBuffer(Types.LongType.get(), Long.valueOf(first)));
        most.put(id, Conversions.toByteBuffer(Types.LongType.get(), Long.valueOf(last)));
      }
      Metrics metrics = new Metrics(
          Long.valueOf(rows), values, values, nulls, new HashMap(), least, most);
      String name = String.format("%s/data/part-%08d-0123456789abcdef.parquet",
          new Object[] {root, Integer.valueOf(i)});
      append.appendFile(DataFiles.builder(table.spec()).withPath(name)
          .withFormat(FileFormat.PARQUET).withFileSizeInBytes(40000L).withMetrics(metrics)
          .withPartitionPath("p=" + ((long) i * parts / all)).build());
    }
    append.commit();
  }

  static long mixed(long value) {
    value = (value ^ (value >>> 16)) * 0x45d9f3b3335b369L;
    return (value ^ (value >>> 32)) & 0xffffffffffL;
  }
}
""".replace("COLUMNS", str(COLUMNS))


def mixed(value: int) -> int:
    """Return a number below 2 to the 40 that looks random."""
    value = ((value ^ value >> 16) * 0x45D9F3B3335B369) & (1 << 64) - 1
    return (value ^ value >> 32) & (1 << 40) - 1


def condition(files: int) -> str:
    """Return a condition on the first column that keeps KEPT files."""
    low = files // 2 * ROWS
    return f"c1 >= {low} AND c1 < {low + KEPT * ROWS}"


def splits(read: Callable[[], Any], where: str | None) -> float:
    """Return the seconds from reading to the tasks of a query."""
    start = time.perf_counter()
    frame = read()
    if where is not None:
        frame = frame.where(where)
    assert frame.select("c2")._jdf.queryExecution().toRdd().getNumPartitions() > 0
    return time.perf_counter() - start


def measured(
    cold: Callable[[int], Callable[[], Any]],
    read: Callable[[], Any],
    append: Callable[[], object],
    files: int,
    rounds: int,
) -> dict[str, list[float]]:
    """Return the figures of one table.

    Args:
        cold: forgets all metadata, and returns how to read the table then.
        read: reads the table that `append` appends to.
        append: appends a row.
        files: of the table.
        rounds: of each figure.
    """
    found: dict[str, list[float]] = {COLD: [], AGAIN: [], APPENDED: [], ALL: []}
    where = condition(files)
    for _ in range(3):
        splits(read, where)
    for number in range(rounds):
        once = cold(number)
        found[COLD].append(splits(once, where))
        found[AGAIN].append(splits(once, where))
        splits(read, where)
        append()
        found[APPENDED].append(splits(read, where))
    for _ in range(min(2, rounds)):
        found[ALL].append(splits(read, None))
    return found


def of_tablefmt(spark: Any, work: str, files: int, rounds: int) -> dict[str, list[float]]:
    """Measure our table."""
    uri = f"{work}/t"
    build(uri, files)
    writer = tablefmt.open(uri)
    writer.checkpoint()
    row = {name: [0] for name in NAMES}
    data = pa.table({**row, "p": pa.array([PARTITIONS // 2], pa.int32())})

    def cold(number: int) -> Callable[[], Any]:
        # The session knows the log of an address that it has read.
        unknown = shutil.copytree(uri, f"{work}/{number}")
        return lambda: tablefmt.spark.read(spark, unknown)

    return measured(
        cold, lambda: tablefmt.spark.read(spark, uri), lambda: writer.append(data), files, rounds
    )


def one_row(spark: Any) -> Any:
    """Return a frame of one row of the table."""
    columns = [f"0L AS {name}" for name in NAMES]
    return spark.range(1).selectExpr(*columns, f"CAST({PARTITIONS // 2} AS INT) AS p")


def of_delta(spark: Any, work: str, files: int, rounds: int) -> dict[str, list[float]]:
    """Measure a table of Delta."""
    path = f"{work}/t"
    one_row(spark).write.format("delta").partitionBy("p").save(path)
    log = Path(path) / "_delta_log"
    each = files // COMMITS
    for commit in range(COMMITS):
        first = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationParameters": {}}}
        lines = [json.dumps(first)]
        for at in range(commit * each, (commit + 1) * each):
            lows = [at * ROWS, *(mixed(at * 31 + column) for column in range(2, COLUMNS + 1))]
            stats = {
                "numRecords": ROWS,
                "minValues": dict(zip(NAMES, lows, strict=True)),
                "maxValues": {n: low + ROWS - 1 for n, low in zip(NAMES, lows, strict=True)},
                "nullCount": dict.fromkeys(NAMES, 0),
            }
            part = at * PARTITIONS // files
            add = {
                "path": f"p={part}/part-{at:08d}-0123456789abcdef.parquet",
                "partitionValues": {"p": str(part)},
                "size": 40_000,
                "modificationTime": 1,
                "dataChange": True,
                "stats": json.dumps(stats),
            }
            lines.append(json.dumps({"add": add}))
        (log / f"{commit + 1:020d}.json").write_text("\n".join(lines) + "\n")
    for crc in [*log.glob("*.crc"), *log.glob(".*.crc")]:
        crc.unlink(missing_ok=True)
    logs = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    logs.clearCache()
    logs.forTable(spark._jsparkSession, path).checkpoint()

    def read() -> Any:
        return spark.read.format("delta").load(path)

    def cold(_: int) -> Callable[[], Any]:
        logs.clearCache()
        return read

    def append() -> None:
        one_row(spark).write.format("delta").mode("append").save(path)

    return measured(cold, read, append, files, rounds)


def of_iceberg(spark: Any, work: str, files: int, rounds: int) -> dict[str, list[float]]:
    """Measure a table of Iceberg."""
    jvm = spark._jvm
    one_row(spark).writeTo("ice.db.t").using("iceberg").partitionedBy("p").create()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(GENERATOR)
    made = compiler.getClassLoader().loadClass("benchmarks.Files")
    (add,) = [method for method in made.getMethods() if method.getName() == "add"]
    table = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
        spark._jsparkSession, "ice.db.t"
    )
    each = files // COMMITS
    for commit in range(COMMITS):
        numbers = [commit * each, (commit + 1) * each, files, PARTITIONS, ROWS]
        given = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 7)
        given[0], given[1] = table, f"file:{work}/db/t"
        for at, number in enumerate(numbers, 2):
            given[at] = jvm.java.lang.Integer.valueOf(number)
        add.invoke(None, given)
    spark.sql("CALL ice.system.rewrite_manifests('db.t')").collect()

    def read() -> Any:
        return spark.table("ice.db.t")

    def append() -> None:
        one_row(spark).writeTo("ice.db.t").append()

    return measured(lambda _: read, read, append, files, rounds)


def one(kind: str, jars: Path, files: int, rounds: int) -> dict[str, list[float]]:
    """Measure one format in this process."""
    work = tempfile.mkdtemp(prefix="spark_plan")
    chosen = {**settings(kind, jars, work), "spark.driver.memory": "4g"}
    if kind == "iceberg":
        chosen["spark.sql.catalog.ice.cache-enabled"] = "false"
    spark = tablefmt.spark.session("plan", master="local[2]", **chosen)
    spark.sparkContext.setLogLevel("ERROR")
    run = {"tablefmt": of_tablefmt, "iceberg": of_iceberg}.get(kind, of_delta)
    try:
        return run(spark, work, files, rounds)
    finally:
        spark.stop()
        shutil.rmtree(work)


def main() -> None:
    """Run and save the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--jars", type=Path, help="of Delta and Iceberg; without, tablefmt alone")
    parser.add_argument("--formats", default=",".join(KINDS))
    parser.add_argument("--one", choices=KINDS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(one(given.one, given.jars or Path(), given.files, given.rounds)))
        return
    kinds = [k for k in KINDS if k in given.formats.split(",") and (given.jars or k == KINDS[0])]
    found = {}
    for kind in kinds:
        jars = ("--jars", given.jars) if given.jars else ()
        sizes = ("--files", given.files, "--rounds", given.rounds)
        found[kind] = in_own_process("spark_plan", kind, *jars, *sizes)
        print(kind, {what: f"{min(each):.3f}" for what, each in found[kind].items()}, flush=True)
    seconds = {kind: summary(each) for kind, each in found.items()}
    save("spark_plan", {"files": given.files, "seconds": seconds})


if __name__ == "__main__":
    main()
