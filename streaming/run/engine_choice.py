"""The choice between the engines of `run`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError

from streaming.engine.driver.driver_engine import DriverEngine
from streaming.engine.engine import ApplyRules, Engine
from streaming.engine.spark.spark_engine import SparkEngine
from streaming.engine.spark.spark_tables import SparkTables
from streaming.engine.spark.upkeep import enable_deletion_vectors
from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.run.s3 import is_s3, unsafe_commits
from streaming.run.session import EngineName
from streaming.run.settings import EngineOption, RunSettings
from streaming.run.spark_errors import java_reasons
from streaming.tables import delta
from streaming.tables.locations import local_path
from streaming.tables.schemas import GROUP_MEMBERS, GROUP_OFFSETS
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

MOST_ROWS_OF_DRIVER: Final = 5_000_000
"""Keys and members. The engine `driver` needs about 6.5 GB for them,
extrapolated from 3,000,000 (docs/sizing.md)."""


class EngineChoice(NamedTuple):
    """An engine, and the reason for it."""

    engine: EngineName
    reason: str


def choose_engine(
    engine: EngineOption, *, master: str, tables: str, in_catalog: bool = False, rows: int = 0
) -> EngineChoice:
    """Choose the engine of a run; `rows` is the number of `stored_rows`.

    `auto` is `spark` only where every executor can write the tables: on a cluster, with tables in a
    store, and on a local master, if the driver engine would need too much memory. It is also
    `spark` if `--tables` names a schema of a catalog, because delta-rs writes without asking the
    catalog.

    >>> choose_engine("auto", master="local[2]", tables="tables")
    EngineChoice(engine='driver', reason='the master is local')
    >>> choose_engine("auto", master="yarn", tables="hdfs://nn/tables").engine
    'spark'
    """
    if engine != "auto":
        return EngineChoice(engine, "set by --engine")
    if in_catalog:
        return EngineChoice("spark", "the tables are in a catalog")
    if master.startswith("local"):
        if rows > MOST_ROWS_OF_DRIVER:
            return EngineChoice("spark", f"the tables have {rows:,} keys and members")
        return EngineChoice("driver", "the master is local")
    if local_path(tables) is not None:
        return EngineChoice("driver", "executors may not have the local folder of the tables")
    return EngineChoice("spark", "the master is a cluster")


def stored_rows(tables: str) -> int:
    """The number of keys and members in a tables folder; 0 if there are none or on a failure.

    The start of the query repairs damaged tables, or reports the failure.
    """
    try:
        return sum(
            delta.counted_rows(delta.open_table(tables, table))
            for table in (GROUP_OFFSETS, GROUP_MEMBERS)
            if DeltaTable.is_deltatable(table.path(tables))
        )
    except (TablesUnavailable, OSError, DeltaError):
        return 0


def master_of(settings: RunSettings, session: SparkSession | None) -> str:
    """The master of a run: that of the caller's session, or else the setting `master`."""
    return settings.master if session is None else str(session.sparkContext.master)


def reachable_engine(
    choice: EngineChoice, settings: RunSettings, session: SparkSession
) -> EngineChoice:
    """The engine that a run uses: `driver` if Spark cannot use the store and no one named `spark`.

    The run asks before it takes over as the writer, so an older run goes on if this one ends here.

    Raises:
        ConfigurationError: the options need the engine `spark`, but it cannot be used.
    """
    if choice.engine == "spark" and (reason := _unusable(settings.tables, session)) is not None:
        if settings.engine == "spark":
            raise ConfigurationError(
                f"Spark cannot use {settings.tables}: {reason}; correct it in spark-defaults.conf, "
                "or use --engine driver"
            )
        choice = EngineChoice("driver", f"Spark cannot use the store: {reason}")
    if choice.engine == "driver" and settings.deletion_vectors:
        raise ConfigurationError(
            f"--deletion-vectors needs the engine spark, and this is the engine driver: "
            f"{choice.reason}; add --engine spark, or remove --deletion-vectors"
        )
    logger.info("engine %(engine)s: %(reason)s", choice._asdict())
    return choice


def engine_of(
    choice: EngineChoice,
    settings: RunSettings,
    writer: Writer,
    rules: ApplyRules,
    session: SparkSession,
    schema: str | None,
) -> Engine[Any]:
    """The chosen engine, for one query; `schema` is that of the tables in a catalog, if any."""
    if choice.engine == "spark":
        if settings.deletion_vectors:
            enable_deletion_vectors(session, SparkTables(writer.tables, schema))
        return SparkEngine(writer, rules, session, schema=schema)
    return DriverEngine(writer, rules)


def _unusable(tables: str, session: SparkSession) -> str | None:
    """Why Delta on Spark cannot write a tables folder safely; None if it can."""
    if local_path(tables) is not None:
        return None
    if is_s3(tables):
        return unsafe_commits(tables, session)
    context: Any = session.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(tables)
    try:
        path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path)
    except Py4JJavaError as error:
        return next(iter(java_reasons(error.java_exception)))
    return None
