"""The Java classes: compiled once in the driver's JVM, and found there by name.

Spark ships the Janino compiler, so no jar has to be installed. What it compiles goes into a private
folder that is put on the class path of the driver; executors need none of it.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any

from tablefmt.errors import UnsupportedFeatureError
from tablefmt.spark.jvm import callbacks, spark_internals
from tablefmt.spark.pyspark_objects import (
    JavaObject,
    Session,
    SessionCache,
    gateway,
    java_session,
    jvm_of,
)

SOURCES = (
    "Ansi",
    "Assigned",
    "Bridge",
    "CatalogEntries",
    "ChangesRelation",
    "ConditionText",
    "Conditions",
    "DefaultSource",
    "DeletedRows",
    "FileList",
    "GroupValues",
    "Grown",
    "InsertEvolution",
    "LiteralsByReference",
    "LiveRows",
    "MergeEvolution",
    "Messages",
    "NamedReads",
    "NativeScan",
    "NativeWrite",
    "NonFailingExpressions",
    "PlaceholderTable",
    "PlainFiles",
    "RepeatableRows",
    "RowCommand",
    "RowCommands",
    "RowDescription",
    "RowTarget",
    "RowTurns",
    "ScalaValues",
    "SessionCatalog",
    "SnapshotFileIndex",
    "SnapshotFormat",
    "SnapshotRelation",
    "SnapshotScan",
    "SnapshotTable",
    "SnapshotWrite",
    "SourceVersions",
    "SparkCallers",
    "SparkExpressions",
    "SparkFields",
    "SparkInternals",
    "SparkNodes",
    "SparkQueries",
    "SparkScans",
    "SparkSettings",
    "StagedSnapshotTable",
    "StatementParser",
    "StreamRows",
    "StreamSink",
    "TableChanges",
    "TableCommand",
    "TableStatement",
    "TableStream",
    "TablefmtException",
)
"""Classes of the package `tablefmt`, each in the .java file of its name in the folder `java`."""

SESSIONS_KEPT = 1024
"""Sessions of which it is known that they have our rules: those used last."""

_IMPORT = re.compile(r"^import (org\.apache\.spark\.[\w.$]+);", re.MULTILINE)
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_FOLDER = "tablefmt-classes-"
_CLASSES = "tablefmt.classes"
_LOADER = "tablefmt.loader"
_installing = threading.Lock()
_trying = threading.Lock()
_ruling = threading.Lock()
_ruled: SessionCache[bool] = SessionCache(SESSIONS_KEPT)
_folders: list[str] = []
_problems: weakref.WeakKeyDictionary[JavaObject, str | None] = weakref.WeakKeyDictionary()
_found: weakref.WeakKeyDictionary[JavaObject, dict[Hashable, JavaObject]] = (
    weakref.WeakKeyDictionary()
)
_log = logging.getLogger("tablefmt.spark")


@lru_cache(maxsize=1)
def _sources() -> dict[str, str]:
    folder = resources.files("tablefmt.spark.jvm") / "java"
    return {name: (folder / f"{name}.java").read_text("utf-8") for name in SOURCES}


@lru_cache(maxsize=1)
def _digest() -> str:
    texts = [*_sources().values(), callbacks.schema_text()]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def new_instance(spark: Session, name: str, *arguments: object) -> JavaObject:
    """A new object of one of `SOURCES`, made by its public constructor: each has one.

    Raises:
        UnsupportedFeatureError: this Spark's JVM cannot compile or load the class.
    """
    plain = kept(spark, "Object", lambda: jvm_of(spark).java.lang.Object)
    array = gateway(spark).new_array(plain, len(arguments))
    for at, argument in enumerate(arguments):
        array[at] = argument
    loaded = _loaded(spark, name)
    constructor = kept(spark, (name, _digest()), lambda: loaded.getConstructors()[0])
    return constructor.newInstance(array)


def kept(spark: Session, key: Hashable, make: Callable[[], JavaObject]) -> JavaObject:
    """What `make` gives, asked for once a JVM: every part of a name there costs a call."""
    objects = _found.setdefault(gateway(spark), {})
    if key not in objects:
        objects[key] = make()
    return objects[key]


def problem(spark: Session) -> str | None:
    """Why the JVM of a classic session cannot have the classes; None if it can.

    Found out once a JVM, and logged as one warning: the Spark is of a minor version that was not
    tested, cannot compile the classes, or lacks one of `internals.INTERNALS`.
    """
    from py4j.protocol import Py4JError

    jvm = gateway(spark)
    with _trying:
        if jvm not in _problems:
            try:
                _problems[jvm] = spark_internals.untested(spark.version) or _lacking(spark)
                if _problems[jvm] is None:
                    new_instance(spark, "Messages").connect(callbacks.schema_text())
                    callbacks.ensure_started(jvm)
            except (UnsupportedFeatureError, Py4JError, TypeError) as error:
                _problems[jvm] = str(error).splitlines()[0]
            if _problems[jvm] is not None:
                _withdraw()
                _log.warning("arrow backend: rows go through Python, because %s", _problems[jvm])
        return _problems[jvm]


def _lacking(spark: Session) -> str | None:
    """Compile the classes, and look for the parts of Spark that they use by name."""
    missing = new_instance(spark, "SparkInternals").missing(spark_internals.as_lines()).split()
    return spark_internals.lacking(missing) if missing else None


def add_rule(spark: Session, *, again: bool = False) -> None:
    """Have a classic session apply NativeScan, and plan by LiteralsByReference.

    Args:
        spark: the session. What is done once is remembered.
        again: look whether the rule is still there.
    """
    if again:
        _add_rules(spark)
    _ruled.get(spark, "rules", lambda: _add_rules(spark))


def _add_rules(spark: Session) -> bool:
    with _ruling:
        methods = java_session(spark).experimental()
        rules = methods.extraOptimizations()
        names = (rules.apply(i).getClass().getName() for i in range(rules.size()))
        if "tablefmt.NativeScan" not in names:
            rule = new_instance(spark, "NativeScan")
            getattr(methods, "extraOptimizations_$eq")(rules.appended(rule))
            strategy = new_instance(spark, "LiteralsByReference")
            getattr(methods, "extraStrategies_$eq")(methods.extraStrategies().appended(strategy))
        _add_analyzer_rule(spark)
    return True


def _add_analyzer_rule(spark: Session) -> None:
    from py4j.protocol import Py4JError

    try:
        new_instance(spark, "RowCommands").install(java_session(spark))
    except Py4JError as error:
        # NativeScan does the same, later.
        _log.warning("DELETE, UPDATE and MERGE in SQL give no numbers of rows: %s", error)


def stand_in(spark: Session) -> None:
    """Have a session's own catalog know tables of ours in whatever thread it is asked, and below
    another's catalog.
    """
    from py4j.protocol import Py4JError

    with _ruling:
        try:
            new_instance(spark, "SessionCatalog").install(java_session(spark))
        except Py4JError as error:
            # Where the setting is ours, it does the same if the thread has an active session.
            setting = spark.conf.get("spark.sql.catalog.spark_catalog", "builtin")
            problem = str(getattr(error, "java_exception", error)).splitlines()[0]
            _log.warning(
                "tables USING tablefmt may not be found by name "
                "(spark.sql.catalog.spark_catalog is %s): %s",
                setting,
                problem,
            )


def add_statements(spark: Session) -> None:
    """Have a session's parser know statements on a table as a whole."""
    from py4j.protocol import Py4JError

    with _ruling:
        try:
            new_instance(spark, "StatementParser").install(java_session(spark))
        except Py4JError as error:
            _log.warning("OPTIMIZE, VACUUM, RESTORE, DESCRIBE HISTORY are not known: %s", error)


def on_class_path(spark: Session) -> bool:
    """Whether Spark finds the classes by name, as `format("tablefmt")` needs."""
    loader = _loader(spark)
    return bool(loader.getClass().getName() != "java.net.URLClassLoader")


def _loaded(spark: Session, name: str) -> JavaObject:
    return _loader(spark).loadClass(f"tablefmt.{name}")


def _loader(spark: Session) -> JavaObject:
    """The class loader that has the classes: Spark's own one, where it can be added to."""
    known = kept(spark, "properties", lambda: jvm_of(spark).java.lang.System.getProperties())
    with _installing:
        if known.get(_CLASSES) is None:
            known.put(_LOADER, _install(spark))
            known.put(_CLASSES, _digest())
        elif known.get(_CLASSES) != _digest():
            raise UnsupportedFeatureError(
                "another release of tablefmt is loaded in this JVM; start Python anew",
                ["spark:two-releases"],
            )
        return known.get(_LOADER)


def _install(spark: Session) -> JavaObject:
    jvm = jvm_of(spark)
    compiled = _compiled(spark)
    folder = tempfile.mkdtemp(prefix=_FOLDER)
    _folders.append(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, code in compiled.items():
        _write(folder, name, code)
    _write(folder, _SERVICE, b"tablefmt.DefaultSource\n")
    url = jvm.java.io.File(folder).toURI().toURL()
    context = loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    while loader is not None:
        if loader.getClass().getName() == "org.apache.spark.util.MutableURLClassLoader":
            loader.addURL(url)
            return loader
        loader = loader.getParent()
    urls = gateway(spark).new_array(jvm.java.net.URL, 1)
    urls[0] = url
    return jvm.java.net.URLClassLoader(urls, context)


def _withdraw() -> None:
    """Let Spark find no data source of ours in classes that turned out to be of no use.

    Spark would find `tablefmt.DefaultSource` by the name `tablefmt` too.
    """
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


def _write(folder: str, name: str, content: bytes) -> None:
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def _compiled(spark: Session) -> dict[str, bytes]:
    """Class files by name."""
    from py4j.protocol import Py4JError

    jvm = jvm_of(spark)
    try:
        resource = jvm.org.codehaus.commons.compiler.util.resource
        texts = gateway(spark).new_array(resource.Resource, len(SOURCES))
        for at, (name, text) in enumerate(_sources().items()):
            texts[at] = resource.StringResource(f"tablefmt/{name}.java", text)
        compiler = jvm.org.codehaus.janino.Compiler()
        compiler.setIClassLoader(
            jvm.org.codehaus.janino.ClassLoaderIClassLoader(
                jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
            )
        )
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        classes = jvm.java.util.HashMap()
        compiler.setClassFileCreator(resource.MapResourceCreator(classes))
        compiler.compile(texts)
        return {str(name): bytes(classes.get(name)) for name in list(classes.keySet())}
    except (Py4JError, TypeError) as error:
        first = str(getattr(error, "java_exception", error)).splitlines()[0]
        missing = _missing_classes(spark)
        problem = (
            spark_internals.lacking(missing)
            if missing
            else f"install Spark {spark_internals.tested()}"
        )
        raise UnsupportedFeatureError(
            f"this Spark cannot compile tablefmt's classes ({first}); {problem}", ["spark:janino"]
        ) from None


def _missing_classes(spark: Session) -> list[str]:
    """Classes of Spark that the sources import and this Spark does not have."""
    from py4j.protocol import Py4JError

    texts = _sources().values()
    wanted = {name for text in texts for name in _IMPORT.findall(text)}
    loaded = jvm_of(spark).org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    missing = []
    for name in sorted(wanted):
        try:
            loaded.loadClass(name)
        except Py4JError:
            missing.append(name)
    return missing


class Callback:
    """A Python function as a `java.util.function.Function`. It may be called on any JVM thread."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def apply(self, argument: Any) -> JavaObject:
        """The one method of the interface."""
        return self._function(argument)

    class Java:
        """What py4j wants to know."""

        implements = ("java.util.function.Function",)


def callback(spark: Session, function: Callable[[Any], Any]) -> Callback:
    """`function` for the JVM. bytes become byte[], str String, None null."""
    callbacks.ensure_started(gateway(spark))
    return Callback(function)


def scala_map(spark: Session, values: dict[str, str]) -> JavaObject:
    """An immutable Scala Map of text to text."""
    api = jvm_of(spark).org.apache.spark.api
    tools = kept(spark, "PythonUtils", lambda: api.python.PythonUtils)
    return tools.toScalaMap(values)


def java_schema(spark: Session, json: str) -> JavaObject:
    """A JVM StructType from Spark's JSON form of it."""
    types = kept(spark, "DataType", lambda: jvm_of(spark).org.apache.spark.sql.types.DataType)
    return types.fromJson(json)


def long(spark: Session, value: int) -> JavaObject:
    """A java.lang.Long: py4j makes an Integer of a small number."""
    return kept(spark, "Long", lambda: jvm_of(spark).java.lang.Long).valueOf(str(value))


def string_array(spark: Session, values: Sequence[str]) -> JavaObject:
    """A String[]."""
    text = kept(spark, "String", lambda: jvm_of(spark).java.lang.String)
    array = gateway(spark).new_array(text, len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array
