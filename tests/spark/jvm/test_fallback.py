"""A Spark that lacks what native I/O needs: the Arrow backend, and one warning that names it."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import tablefmt.spark
from tablefmt.spark.jvm import java_classes
from tablefmt.spark.jvm.spark_internals import INTERNALS

# In a process of its own: the classes are compiled once a JVM.
PROGRAM = """
import json, logging, sys
import tablefmt, tablefmt.errors, tablefmt.spark
from tablefmt.spark.jvm import java_classes, spark_internals

uri, kind, gone = sys.argv[1:]
if kind == "class":
    sources = java_classes._sources()
    assert any(gone in text for text in sources.values())
    changed = {name: text.replace(gone, gone + "IsGone") for name, text in sources.items()}
    java_classes._sources = lambda: changed
elif kind == "name":
    lines = spark_internals.as_lines()
    assert gone in lines
    spark_internals.as_lines = lambda: lines.replace(gone, gone + "IsGone")
else:
    spark_internals.untested = lambda version, known=spark_internals.untested: known(gone)
warnings = []

class Kept(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.WARNING:
            warnings.append(record.getMessage())

logging.getLogger("tablefmt").addHandler(Kept())
spark = tablefmt.spark.session(
    "fallback", master="local[1]", **{"spark.sql.shuffle.partitions": "1"}
)
spark.sparkContext.setLogLevel("OFF")
tablefmt.spark.register(spark)
tablefmt.spark.register(spark)
tablefmt.spark.register(spark.newSession())
rows = spark.range(6).selectExpr("id", "concat('p', id % 2) as p")
tablefmt.spark.write(rows.coalesce(1), uri, partition_by=["p"])
rows.coalesce(1).write.format("tablefmt").mode("append").save(uri)
frames = [
    spark.read.format("tablefmt").load(uri).where("p = 'p1' and id > 2"),
    tablefmt.spark.read(spark, uri),
]
answers = [sorted(str(r.asDict()) for r in f.collect()) for f in frames]
try:
    spark.sql(f"VACUUM tablefmt.`{uri}`")
    refused = ""
except tablefmt.errors.UnsupportedFeatureError as error:
    refused = str(error)
spark.conf.set("spark.tablefmt.backend", "native")
try:
    tablefmt.spark.read(spark, uri)
    native = ""
except tablefmt.errors.UnsupportedFeatureError as error:
    native = str(error)
print(json.dumps(
    {"answers": answers, "warnings": warnings, "refused": refused, "native": native}
))
spark.stop()
"""


RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "gone", "named"),
    [
        ("name", "hintResolutionRules", "analysis.Analyzer#hintResolutionRulesIsGone;"),
        pytest.param("class", RELATION, f"{RELATION}IsGone;", marks=pytest.mark.soak),
        pytest.param(
            "version",
            "4.4.1",
            "not tested with Spark 4.4.1, only with 4.1, 4.2, 4.3; install a tested",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_what_is_lacking_means_the_other_backend_the_same_answers_and_one_warning(
    spark: Any, uri: str, kind: str, gone: str, named: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri, kind, gone],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    tablefmt.spark.register(spark)
    frame = spark.read.format("tablefmt").load(uri)
    frames = [frame.where("p = 'p1' and id > 2"), tablefmt.spark.read(spark, uri)]
    answers = [sorted(str(r.asDict()) for r in f.collect()) for f in frames]
    assert [len(rows) for rows in answers] == [4, 12]
    assert found["answers"] == answers
    assert "call tablefmt.spark.open(spark, uri).vacuum(" in found["refused"]
    (warning,) = found["warnings"]
    assert warning.startswith("arrow backend: rows go through Python, because ")
    assert named in warning
    assert named in found["native"]
    assert "spark.tablefmt.backend is native" in found["native"]


def test_the_check_at_register_finds_every_missing_name(spark: Any) -> None:
    """Each class and each member of the table."""
    check = java_classes.new_instance(spark, "SparkInternals")
    lines = [f"{each.name}IsGone" for each in INTERNALS]
    assert check.missing("\n".join(lines)).split() == lines
    lines = ["\t".join((each.name, *(f"{m}IsGone" for m in each.members))) for each in INTERNALS]
    members = [f"{each.name}#{member}IsGone" for each in INTERNALS for member in each.members]
    assert check.missing("\n".join(lines)).split() == members
