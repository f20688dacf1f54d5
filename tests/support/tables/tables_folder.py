"""Folders of tables written without Spark: by hand, or by the micro-batches of a test."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from coordinator_state.log.log_rows import pack
from streaming.engine.driver.driver_engine import DriverEngine
from streaming.engine.engine import ApplyRules, Engine, Outcomes
from streaming.engine.micro_batch import MicroBatchApply
from streaming.engine.progress import OnProgress
from streaming.engine.spark.spark_engine import SparkEngine
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    FORMAT_VERSION,
    LOAD_PROGRESS,
    PROPERTY_CLUSTER_ID,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_LOG_PARTITIONS,
    PROPERTY_OFFSETS_RETENTION_MS,
    PROPERTY_SEMANTICS,
    PROPERTY_TOPIC_ID,
    TABLES,
    Table,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW = datetime(2026, 11, 21, 3, 14, tzinfo=timezone.utc)

SPARK_ENGINE: Final = pytest.param("spark", marks=(pytest.mark.spark, pytest.mark.long))
"""A micro-batch of the engine `spark` takes seconds."""

ENGINES: Final = ("driver", SPARK_ENGINE)
"""The parameters of the fixture `engine_session`."""

Row = dict[str, Any]


class Crash(Exception):
    """The process is killed."""


def _crash() -> None:
    raise Crash


def start_apply(
    tables: str,
    *,
    history: str = "all",
    fault: str = "",
    happens: Callable[[], object] = _crash,
    on_progress: OnProgress | None = None,
    spark: SparkSession | None = None,
    schema: str | None = None,
    **options: Any,
) -> MicroBatchApply[pa.Table]:
    """Open a folder as a start of `run` does; `happens` is called after it wrote `fault`.

    With a session the engine is `spark`; `schema` is that of the tables in a catalog.
    """

    def after(table: str) -> None:
        if table == fault:
            happens()

    writer = replace(open_for_writing(tables, "test"), on_table=after)
    progress = LoadProgress.read(TableReader(tables))
    rules = ApplyRules(
        semantics=progress.semantics, release=progress.release, history_mode=history, **options
    )
    engine: Engine[pa.Table] = DriverEngine(writer, rules)
    if spark is not None:
        engine = _OfArrow(writer, rules, spark, schema)
    return MicroBatchApply(engine, progress, on_progress=on_progress)


class _OfArrow(SparkEngine):
    """The engine `spark` with rows of this process, in place of those of a source."""

    def apply(self, rows: Any, progress: LoadProgress) -> Outcomes:
        packed = [pack(batch) for batch in rows.combine_chunks().to_batches()]
        return super().apply(self.session.createDataFrame(pa.Table.from_batches(packed)), progress)


_OF_TYPE: Final = {
    **dict.fromkeys((pa.int32(), pa.int64()), 0),
    **{pa.bool_(): False, pa.string(): "", pa.binary(): b"", pa.timestamp("us", "UTC"): NOW},
}
_PRESENT: Final = {"state": "current", "topic_id": "topic"}
_DEFAULTS: Final[dict[str, Row]] = {
    "pending_offsets": {"producer_id": 7, "committed_offset": 9, "record_timestamp": NOW},
    "groups": {"group_type": "classic", "state": "Empty"},
    "group_members": {"client_id": "c", "client_host": "/127.0.0.1"},
    "coordinator_records": {
        **{"record_type": 3, "record_type_name": "ConsumerGroupMetadata", "record_key": "{}"},
        "record_timestamp": NOW,
    },
    "offset_commits": {"outcome": "committed"},
    "log_offsets": {"state": "present", "topic_id": "T"},
    "transactions": {"producer_id": 7, "timeout_ms": 60_000, "client_transaction_version": 2},
    "load_progress": _PRESENT
    | {"cluster_id": "cluster", "semantics": "coordinator", "query_id": "query"},
    "topic_progress": _PRESENT,
}


@cache
def _defaults(name: str) -> Row:
    """The defaults of a table: of every column that is not nullable, and some others."""
    (schema,) = (table.schema for table in ALL_TABLES if table.name == name)
    by_type = {
        field.name: [] if pa.types.is_list(field.type) else _OF_TYPE.get(field.type)
        for field in schema
        if not field.nullable
    }
    return by_type | _DEFAULTS.get(name, {})


def create_tables(folder: Path, **properties: str) -> str:
    """Empty tables with the properties that `run` gives them; returns the folder's name."""
    configuration = {
        PROPERTY_FORMAT_VERSION: FORMAT_VERSION,
        PROPERTY_CLUSTER_ID: "cluster",
        PROPERTY_TOPIC_ID: "topic",
        PROPERTY_LOG_PARTITIONS: "1",
        PROPERTY_SEMANTICS: "coordinator",
        PROPERTY_OFFSETS_RETENTION_MS: "604800000",
        **{f"coordinator_state.{name}": value for name, value in properties.items()},
    }
    for table in ALL_TABLES:
        log = Path(table.path(str(folder)), "_delta_log")
        log.mkdir(parents=True)
        entry = log / f"{0:020}.json"
        entry.write_text(_first_entries()[table.name])
        # Spark creates tables with any property; delta-rs reads them.
        created_now(entry, configuration if table is LOAD_PROGRESS else {})
    return str(folder)


def created_now(entry: Path, configuration: dict[str, str] | None = None) -> None:
    """Let the entry that creates a table be of another table, which is created now.

    Its properties stay, unless there is a `configuration`.
    """

    def create(action: Row) -> None:
        if "metaData" in action:
            action["metaData"]["id"] = str(uuid4())
            if configuration is not None:
                action["metaData"]["configuration"] = configuration
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] = time.time_ns() // 1_000_000

    rewrite_entry(entry, create)


def rewrite_entry(entry: Path, change: Callable[[Row], object]) -> None:
    """Change the actions of an entry of a Delta log."""
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        change(action)
    entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


@cache
def _first_entries() -> dict[str, str]:
    """The entry of the Delta log that creates each table, made once for each process."""
    entries = {}
    for table in ALL_TABLES:
        with TemporaryDirectory(prefix="empty-table-") as folder:
            DeltaTable.create(
                folder, schema=table.schema, partition_by=list(table.partition_by) or None
            )
            entries[table.name] = Path(folder, "_delta_log", f"{0:020}.json").read_text()
    return entries


def apply_micro_batch(folder: str, *, progress: list[Row], **rows: list[Row]) -> None:
    """Replace the rows of the named tables and, last, those of `load_progress`."""
    for name, table_rows in rows.items():
        write_rows(folder, name, table_rows)
    versions = {
        table.name: int(log_entries(folder, table)[-1].stem)
        for table in TABLES
        if table is not LOAD_PROGRESS
    }
    versioned = [{"table_versions": sorted(versions.items()), **row} for row in progress]
    write_rows(folder, LOAD_PROGRESS.name, versioned)


def write_rows(folder: str, name: str, rows: list[Row]) -> None:
    """Replace the rows of one table, each filled up with defaults."""
    (table,) = (table for table in ALL_TABLES if table.name == name)
    filled = pa.Table.from_pylist([with_defaults(name, row) for row in rows], schema=table.schema)
    write_deltalake(table.path(folder), filled, mode="overwrite")


def with_defaults(name: str, row: Row) -> Row:
    """A row of a table, with defaults for the columns that it lacks."""
    derived: Row = {}
    at = row.get("record_timestamp")
    if name == "log_offsets":
        end, at = row.get("log_end_offset"), row["sampled_at"]
        derived = {"log_start_offset": None if end is None else 0, "last_stable_offset": end}
    if name == "offset_commits":
        at = row.get("record_timestamp", row.get("commit_timestamp"))
        derived = {"record_timestamp": at, "outcome_record_offset": row["record_offset"]}
    if name in ("log_offsets", "offset_commits", "group_events", "transaction_events"):
        derived["day"] = None if at is None else at.date()
    return {**_defaults(name), **derived, **row}


def backdate(tables: str, table: Table, moment: datetime) -> None:
    """Let the versions of a table that are younger than a moment be as old as it."""
    moment_ms = round(1000 * moment.timestamp())

    def write_before(action: Row) -> None:
        info = action.get("commitInfo", {"timestamp": moment_ms})
        info["timestamp"] = min(info["timestamp"], moment_ms)

    for entry in log_entries(tables, table):
        rewrite_entry(entry, write_before)
        written_s = min(entry.stat().st_mtime, moment_ms / 1000)
        os.utime(entry, (written_s, written_s))


def log_entries(tables: str, table: Table) -> list[Path]:
    """The entries of the Delta log of a table, the newest last."""
    return sorted(Path(table.path(tables), "_delta_log").glob("*.json"))


def versions_of(tables: str) -> dict[str, int]:
    """The newest version of each table."""
    return {table.name: int(log_entries(tables, table)[-1].stem) for table in ALL_TABLES}
