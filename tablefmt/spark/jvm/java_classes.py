"""Compile the Java classes once in the driver's JVM, and load them by name.

Spark ships the Janino compiler, so no jar needs to be installed. Compiled classes go to a private
folder, which is added to the driver's class path. Executors do not need them.
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
from tablefmt.operations.metadata_tables import KNOWN_NAMES
from tablefmt.spark.jvm import callbacks, spark_internals
from tablefmt.spark.pyspark_objects import (
    JavaObject,
    Session,
    SessionCache,
    gateway,
    java_class,
    java_session,
    jvm_of,
)

SOURCES = (
    "Ansi",
    "Bridge",
    "CatalogEntries",
    "ChangeRowMapping",
    "ChangesRelation",
    "ConditionText",
    "Conditions",
    "DefaultSource",
    "DeletedRows",
    "DirectFiles",
    "FileList",
    "FileTimes",
    "GeneratedInserts",
    "GroupValues",
    "InsertEvolution",
    "LiteralsByReference",
    "LiveRows",
    "MergeEvolution",
    "Messages",
    "MetadataReads",
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
    "ScalaValues",
    "SchemaEvolution",
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
    "StoreAssignment",
    "StreamRows",
    "StreamSink",
    "TableChanges",
    "TableCommand",
    "TableStatement",
    "TableStream",
    "TablefmtException",
)
"""Classes of the package `tablefmt`. The folder `java` has one .java file of each name."""

SESSIONS_KEPT = 1024
"""Number of sessions that are known to have our rules: those used last."""

_IMPORT = re.compile(r"^import (org\.apache\.spark\.[\w.$]+);", re.MULTILINE)
_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_FOLDER = "tablefmt-classes-"
_CLASSES = "tablefmt.classes"
_LOADER = "tablefmt.loader"
_installing = threading.Lock()
_checking = threading.Lock()
_installing_rules = threading.Lock()
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
    """Return a new object of one of `SOURCES`, made by its single public constructor.

    Raises:
        UnsupportedFeatureError: this Spark's JVM cannot compile or load the class.
    """
    array = gateway(spark).new_array(java_class("java.lang.Object"), len(arguments))
    for at, argument in enumerate(arguments):
        array[at] = argument
    constructor = cached_in_jvm(
        spark, (name, _digest()), lambda: _loaded(spark, name).getConstructors()[0]
    )
    return constructor.newInstance(array)


def cached_in_jvm(spark: Session, key: Hashable, make: Callable[[], JavaObject]) -> JavaObject:
    """Return the result of `make`, cached per JVM."""
    objects = _found.setdefault(gateway(spark), {})
    if key not in objects:
        objects[key] = make()
    return objects[key]


def problem(spark: Session) -> str | None:
    """Return why the JVM of a classic session cannot use the classes. None if it can.

    Possible reasons: the minor version of Spark is not tested, cannot compile the classes, or lacks
    one of `spark_internals.INTERNALS`. The result is cached per JVM, and logged as one warning.
    """
    from py4j.protocol import Py4JError

    jvm = gateway(spark)
    with _checking:
        if jvm not in _problems:
            try:
                _problems[jvm] = spark_internals.untested(spark.version) or _lacking(spark)
                if _problems[jvm] is None:
                    new_instance(spark, "Messages").connect(callbacks.schema_text())
                    callbacks.ensure_started(jvm)
            except (UnsupportedFeatureError, Py4JError, TypeError) as error:
                _problems[jvm] = str(error).splitlines()[0]
            if _problems[jvm] is not None:
                _remove_classes()
                _log.warning("arrow backend: rows go through Python, because %s", _problems[jvm])
        return _problems[jvm]


def _lacking(spark: Session) -> str | None:
    """Compile the classes, and check the parts of Spark that they use by name."""
    missing = new_instance(spark, "SparkInternals").missing(spark_internals.as_lines()).split()
    return spark_internals.lacking(missing) if missing else None


def add_rule(spark: Session, *, again: bool = False) -> None:
    """Make a classic session apply NativeScan, and plan with LiteralsByReference.

    Args:
        spark: the session. It is remembered, so that this runs once.
        again: True checks again whether the rule is there.
    """
    if again:
        _add_rules(spark)
    _ruled.get(spark, "rules", lambda: _add_rules(spark))


def _add_rules(spark: Session) -> bool:
    with _installing_rules:
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
        metadata = string_array(spark, KNOWN_NAMES)
        new_instance(spark, "RowCommands").install(java_session(spark), metadata)
    except Py4JError as error:
        # NativeScan handles the statements later.
        _log.warning("DELETE, UPDATE and MERGE in SQL return no row counts: %s", error)


def install_catalog(spark: Session) -> None:
    """Make a session's own catalog resolve tablefmt tables, also in other threads and catalogs."""
    from py4j.protocol import Py4JError

    with _installing_rules:
        try:
            new_instance(spark, "SessionCatalog").install(java_session(spark))
        except Py4JError as error:
            # With our catalog setting, threads with an active session still find the tables.
            setting = spark.conf.get("spark.sql.catalog.spark_catalog", "builtin")
            problem = str(getattr(error, "java_exception", error)).splitlines()[0]
            _log.warning(
                "tables USING tablefmt may not be found by name "
                "(spark.sql.catalog.spark_catalog is %s): %s",
                setting,
                problem,
            )


def add_statements(spark: Session) -> None:
    """Make a session's parser accept statements on a whole table."""
    from py4j.protocol import Py4JError

    with _installing_rules:
        try:
            new_instance(spark, "StatementParser").install(java_session(spark))
        except Py4JError as error:
            _log.warning("OPTIMIZE, VACUUM, RESTORE, DESCRIBE HISTORY are not available: %s", error)


def on_class_path(spark: Session) -> bool:
    """Return whether Spark finds the classes by name, as `format("tablefmt")` needs."""
    loader = _loader(spark)
    return bool(loader.getClass().getName() != "java.net.URLClassLoader")


def _loaded(spark: Session, name: str) -> JavaObject:
    return _loader(spark).loadClass(f"tablefmt.{name}")


def _loader(spark: Session) -> JavaObject:
    """Return the class loader with the classes: Spark's own one, if it accepts additions."""
    known = cached_in_jvm(
        spark, "properties", lambda: java_class("java.lang.System").getProperties()
    )
    with _installing:
        if known.get(_CLASSES) is None:
            known.put(_LOADER, _install(spark))
            known.put(_CLASSES, _digest())
        elif known.get(_CLASSES) != _digest():
            raise UnsupportedFeatureError(
                "another release of tablefmt is loaded in this JVM; restart Python",
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


def _remove_classes() -> None:
    """Remove compiled classes that cannot be used, so that Spark does not find the data source.

    Spark would find `tablefmt.DefaultSource` by the name `tablefmt`, too.
    """
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


def _write(folder: str, name: str, content: bytes) -> None:
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def _compiled(spark: Session) -> dict[str, bytes]:
    """Compile the sources, and return class files by name."""
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
    """Return the classes of Spark that the sources import and this Spark lacks."""
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
        """Call the function. This is the interface's only method."""
        return self._function(argument)

    class Java:
        """Interfaces, in the form that py4j reads."""

        implements = ("java.util.function.Function",)


def callback(spark: Session, function: Callable[[Any], Any]) -> Callback:
    """Return `function` for the JVM. bytes become byte[], str String, None null."""
    callbacks.ensure_started(gateway(spark))
    return Callback(function)


def scala_map(values: dict[str, str]) -> JavaObject:
    """Return an immutable Scala Map of text to text."""
    return java_class("org.apache.spark.api.python.PythonUtils").toScalaMap(values)


def java_schema(json: str) -> JavaObject:
    """Return a StructType of the JVM from Spark's JSON form."""
    return java_class("org.apache.spark.sql.types.DataType").fromJson(json)


def long(value: int) -> JavaObject:
    """Return a java.lang.Long: py4j would pass a small number as an Integer."""
    return java_class("java.lang.Long").valueOf(str(value))


def string_array(spark: Session, values: Sequence[str]) -> JavaObject:
    """Return a String[]."""
    array = gateway(spark).new_array(java_class("java.lang.String"), len(values))
    for at, value in enumerate(values):
        array[at] = value
    return array
