"""The program that made these files: `python make.py DIRECTORY`, with Spark 4.1 or later."""

import glob
import pathlib
import shutil
import sys
import tempfile

from pyspark.sql import SparkSession

ROWS = """
 (true, 127Y, -32768S, 2147483647, -9223372036854775808L, 1.5F, 2.5D, 'é', X'FF',
  DATE '0001-01-01', TIMESTAMP '1969-12-31 23:59:59.999999Z',
  TIMESTAMP_NTZ '9999-12-31 23:59:59.999999', 123.45BD, 12345678901234.5678BD,
  12345678901234567890.123456789012345678BD, CAST('NaN' AS DOUBLE), 0.0D, repeat('a', 40)),
 (false, -128Y, 32767S, -2147483648, 9223372036854775807L, -1.5F, -2.5D, 'a', X'00',
  DATE '9999-12-31', TIMESTAMP '2020-01-01 00:00:00.123456Z',
  TIMESTAMP_NTZ '1500-01-01 00:00:00', -123.45BD, -12345678901234.5678BD,
  -12345678901234567890.123456789012345678BD, 1.0D, -0.0D, repeat('b', 40)),
 (null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
  null, null)
"""


def main(target: pathlib.Path) -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "uncompressed")
        .getOrCreate()
    )
    rows = spark.sql(
        f"SELECT * FROM VALUES {ROWS} AS t(bo, y, sh, i, l, f, d, s, b, dt, ts, tn, m5, m18, m38, "
        "nan, zero, long)"
    ).selectExpr(
        *("bo", "y", "sh", "i", "l", "f", "d", "s", "b", "dt", "ts", "tn"),
        "CAST(m5 AS DECIMAL(5, 2)) m5",
        "CAST(m18 AS DECIMAL(18, 4)) m18",
        "CAST(m38 AS DECIMAL(38, 18)) m38",
        *("nan", "zero", "long", "named_struct('x', i) st"),
    )
    for unit in ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"):
        spark.conf.set("spark.sql.parquet.outputTimestampType", unit)
        part = rows if unit == "TIMESTAMP_MICROS" else rows.select("ts", "m5")
        with tempfile.TemporaryDirectory() as place:
            part.coalesce(1).write.mode("overwrite").parquet(place)
            name = unit.removeprefix("TIMESTAMP_").lower()
            shutil.copy(glob.glob(f"{place}/*.parquet")[0], target / f"{name}.parquet")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
