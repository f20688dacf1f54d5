"""The Spark session; only this module has its settings and its jars."""

from __future__ import annotations

import atexit
import os
import re
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from zipfile import ZIP_DEFLATED, ZipFile

from py4j.protocol import Py4JError

from streaming.jvm.class_archive import options_to_make, options_to_use
from streaming.jvm.jars import delta_jars, s3_jars
from streaming.jvm.java import find_java
from streaming.jvm.spark_home import linked_spark_home
from streaming.run.s3 import LOG_STORES, UPLOADS, add_log_store, s3_settings
from streaming.run.stages import enter_stage
from streaming.run.stderr import log_format

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EngineName = Literal["driver", "spark"]

_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.locality.wait": "0",
    # After an OutOfMemoryError Spark's other threads wait for ever, so the JVM exits.
    _JAVA_OPTIONS: "-XX:+ExitOnOutOfMemoryError",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",
}

_DRIVER_ENGINE = {
    "spark.sql.shuffle.partitions": "1",
    # The JVM only plans and passes rows on, so parallel GC and the C2 compiler would only cost
    # memory, and so would a heap that begins with 1/64 of the machine's memory.
    _JAVA_OPTIONS: "-XX:+ExitOnOutOfMemoryError -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms64m",
}
_LOCAL_SPARK_ENGINE = {
    # On few cores the C2 compiler and parallel GC take more time than they save. With one compiler,
    # the JVM's default of 48 MB is too little for the code of Delta Lake.
    _JAVA_OPTIONS: (
        "-XX:+ExitOnOutOfMemoryError -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "
        "-XX:ReservedCodeCacheSize=240m"
    ),
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Hadoop would write a hidden file with a checksum beside each file, which no reader of Delta
    # needs and maintenance does not delete.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    # Hostile input may have commit timestamps before 1900; they are stored unchanged.
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
}
_LOG_STORE_OF_ALL = "spark.delta.logStore.class"
"""Delta refuses this setting beside those of `LOG_STORES`."""
_PANDAS_WARNING = "PySpark does not yet fully support pandas"
_PACKAGES = ("coordinator_state", "streaming", "pyspark_coordinator_state")
_LOG4J = Path(__file__).with_name("log4j2.properties")
_WITHOUT_SPARK_CONF = {
    # A micro-batch is planned to send at most about 100 MB to the driver
    # (streaming/source/log_sample.py). If it sends far more, the query fails with a clear error
    # before it fills a heap of 1 GB.
    "spark.driver.maxResultSize": "512m",
}
"""The settings of a user who has no configuration of Spark."""


def build_session(
    *,
    master: str = "local[2]",
    warehouse: Path | None = None,
    engine: EngineName = "driver",
    with_delta: bool = False,
    with_hive: bool = False,
    with_s3: bool = False,
    archive_to: Path | None = None,
) -> SparkSession:
    """Start (or get) the session that runs the query.

    In local mode everything binds to the loopback address. The user's SPARK_HOME or SPARK_CONF_DIR
    is used if it is set; otherwise Spark logs errors only.

    Args:
        master: Spark's master URL.
        warehouse: the folder for tables without a location.
        engine: the engine of the query. The engine `spark` writes tables with Delta's jars.
        with_delta: add Delta's jars and extensions also for the engine `driver`, which writes
            tables without Spark. The jars come from the project's cache, so a second start needs no
            network.
        with_hive: use the Hive metastore of the user's configuration; without one, a metastore in
            the working directory.
        with_s3: add Hadoop's S3A and its settings. A user with SPARK_HOME or SPARK_CONF_DIR has
            them there.
        archive_to: write an archive of the JVM's classes there when the JVM ends.

    Raises:
        ConfigurationError: no JDK that Spark can run on, or the jars cannot be fetched.
    """
    enter_stage("starting Spark")
    java = find_java()
    os.environ["JAVA_HOME"] = str(java.parent.parent)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    # This process and Spark's workers would show it, but the query does not use pandas.
    warnings.filterwarnings("ignore", _PANDAS_WARNING, FutureWarning)
    os.environ.setdefault("PYTHONWARNINGS", f"ignore:{_PANDAS_WARNING}:FutureWarning")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("coordinator-state")
    with_delta = with_delta or engine == "spark"
    settings = _settings(master, engine, with_delta=with_delta, with_s3=with_s3)
    java_options = [settings[_JAVA_OPTIONS], f"-Dcoordinator_state.log_format={log_format()}"]
    if not is_configured():
        # Not as a folder on the class path, with which the JVM would use no archive of classes.
        settings |= _WITHOUT_SPARK_CONF
        java_options.append(f"-Dlog4j2.configurationFile={_LOG4J.as_uri()}")
    java_options.append(options_to_make(archive_to) if archive_to else options_to_use(java))
    settings[_JAVA_OPTIONS] = " ".join(java_options)
    for name, value in settings.items():
        builder = builder.config(name, value)
    if master.startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config(
            "spark.driver.host", "127.0.0.1"
        )
    if warehouse is not None:
        builder = builder.config("spark.sql.warehouse.dir", str(warehouse))
    if with_hive:
        builder = builder.enableHiveSupport()
    # YARN would send the folder to its machines in place of the archive.
    home = linked_spark_home() if master.startswith("local") else nullcontext()
    with _own_interrupt_handler(), home:
        session = builder.getOrCreate()
    if LOG_STORES.items() <= settings.items():
        add_log_store(session)
    if not master.startswith("local"):
        # Ships this program to the executors; its dependencies must be installed there.
        session.sparkContext.addPyFile(str(_program_as_archive()))
    return session


def _settings(
    master: str, engine: EngineName, *, with_delta: bool, with_s3: bool
) -> dict[str, str]:
    """The settings of the engine, and the jars that it needs."""
    settings, jars = dict(_SETTINGS), list[Path]()
    configured = _configured()
    if engine == "driver":
        settings |= _DRIVER_ENGINE
    elif master.startswith("local"):
        settings |= _LOCAL_SPARK_ENGINE
    if with_delta:
        settings |= _DELTA | (UPLOADS if with_s3 else {})
        jars += delta_jars()
        if with_s3 and _LOG_STORE_OF_ALL not in configured:
            settings |= LOG_STORES
    if with_s3 and not is_configured():
        settings |= s3_settings()
        jars += s3_jars()
    if jars:
        user_jars = configured.get("spark.jars", "")
        settings["spark.jars"] = ",".join(filter(None, [user_jars, *map(str, jars)]))
    return settings


def _configured() -> dict[str, str]:
    """The settings of the user's `spark-defaults.conf`: those of a session replace them."""
    folder = os.environ.get("SPARK_CONF_DIR")
    if folder is None and (home := os.environ.get("SPARK_HOME")):
        folder = str(Path(home, "conf"))
    if folder is None:
        return {}
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    # The format is that of java.util.Properties.
    matches = (re.match(r"\s*([^\s=:#!]+)[\s=:]+(.*?)\s*$", line) for line in lines)
    return {match[1]: match[2] for match in matches if match}


def is_configured() -> bool:
    """Whether the user has a Spark, or a configuration of Spark, of their own."""
    return not {"SPARK_CONF_DIR", "SPARK_HOME"}.isdisjoint(os.environ)


@contextmanager
def session_of(
    given: SparkSession | None,
    *,
    master: str,
    engine: EngineName,
    with_catalog: bool,
    with_s3: bool = False,
) -> Iterator[SparkSession]:
    """Yield the session that the caller of `run` passed in, or else one that is stopped at the end.

    Args:
        given: the caller's session; it is not stopped.
        master: Spark's master URL.
        engine: the engine of the query.
        with_catalog: whether the tables are in a catalog; see `with_delta` and `with_hive`.
        with_s3: whether the tables or the checkpoint may be in S3.

    Raises:
        ConfigurationError: see `build_session`.
    """
    if given is not None:
        yield given
        return
    session = build_session(
        master=master,
        engine=engine,
        with_delta=with_catalog,
        with_hive=with_catalog,
        with_s3=with_s3,
    )
    try:
        yield session
    finally:
        with suppress(Py4JError, ConnectionError):
            session.stop()


@contextmanager
def _own_interrupt_handler() -> Iterator[None]:
    """Keep the handler of SIGINT: PySpark's would cancel a running micro-batch."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        # None means a handler that was not installed from Python.
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)


def _program_as_archive() -> Path:
    """Write this program's packages to a ZIP file that is deleted when this process ends."""
    folder = tempfile.TemporaryDirectory(prefix="coordinator-state-program-")
    atexit.register(folder.cleanup)
    archive = Path(folder.name, "coordinator_state_program.zip")
    root = Path(__file__).parents[2]
    with ZipFile(archive, "w", ZIP_DEFLATED) as out:
        for package in _PACKAGES:
            for file in sorted((root / package).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    out.write(file, file.relative_to(root))
    return archive
