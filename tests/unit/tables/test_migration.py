"""Tables as earlier releases wrote them, and what this one makes of them."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from coordinator_state.model.log import CoordinatorLog, KeyAndValue, Producer
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.records.internal_topics import OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from coordinator_state.replay.offsets import CONTROL_TYPE_COMMIT, Semantics
from coordinator_state.replay.releases import Release
from streaming.errors import ConfigurationError
from streaming.tables import folder as tables_folder
from streaming.tables import migration
from streaming.tables.creation import properties_of
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALL_TABLES,
    FORMAT_VERSION,
    LOAD_PROGRESS,
    PROPERTY_FORMAT_VERSION,
    PROPERTY_OFFSETS_RETENTION_MS,
    TABLES,
    Table,
)
from tests.support.clients.command_line import call
from tests.support.logs.logs import group_value, offset_key, offset_value
from tests.support.logs.topic_logs import (
    NOW_MS,
    TopicLog,
    follow,
    transaction_key,
    transaction_value,
)
from tests.support.tables.tables_folder import SPARK_ENGINE, start_apply, versions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDED: dict[int, dict[str, Collection[str]]] = {
    10: {"group_lag": (), "group_status": (), "status_changes": ()},
    11: {"load_progress": ("epoch_entries",), "topic_progress": ("epoch_entries",)},
    12: {
        "load_progress": ("clock_skew_ms",),
        "group_lag": ("usual_commit_ms", "usual_move_ms"),
    },
    13: {
        "group_lag": (
            *("gone_since", "uncommitted_since", "recreated_at", "is_lag_lower_bound"),
            "is_status_older",
        ),
        "group_status": ("is_lag_lower_bound", "is_status_older"),
    },
    14: {"group_lag": ("cause",), "group_status": ("cause",)},
}
"""The columns, or the table, that came with a format version."""
IDENTITY: dict[str, Any] = {
    "cluster_id": "cluster",
    "topic_id": "topic",
    "semantics": Semantics.COORDINATOR,
    # Earlier releases replayed groups by the rules of 4.2.
    "release": Release.KAFKA_4_2,
}
Rows = dict[str, list[dict[str, Any]]]
Log = tuple[pa.Table, pa.Table]
"""The rows of two micro-batches."""


def commit(topic: str, partition: int, offset: int | None, group_id: str = "foo") -> KeyAndValue:
    value = None if offset is None else offset_value(offset)
    return offset_key(group_id, topic, partition), value


@pytest.fixture(scope="module")
def log() -> Log:
    """A transaction ends in the second micro-batch."""
    log, producer = CoordinatorLog(), Producer(1000, 2)
    group = encode_key(RECORD_TYPES[2], {"group": "foo"})
    committed = [commit("foo", 0, 23), commit("foo", 1, 455), commit("bar", 0, 8992)]
    log.append([*committed, (group, group_value(["a", "b"]))], NOW_MS)
    log.append([commit("foo", 9, 1, "simple"), (b"\x7f\xff", b"unknown")], NOW_MS)
    log.append([commit("foo", 2, 231), commit("bar", 1, 89921)], NOW_MS, producer)
    first = micro_batch([log.take()])
    log.append_marker(producer, CONTROL_TYPE_COMMIT, NOW_MS)
    changes = [commit("foo", 0, 24), commit("foo", 1, None)]
    log.append([(group, group_value(["a"])), *changes], NOW_MS)
    return first, micro_batch([log.take()])


@pytest.fixture(scope="module")
def current(tmp_path_factory: pytest.TempPathFactory, log: Log) -> tuple[Rows, Rows]:
    """What this release makes of one micro-batch, and of both."""
    tables = str(tmp_path_factory.mktemp("current") / "tables")
    tables_folder.create(tables, LoadProgress(**IDENTITY), log_partitions=50)
    rows_after = []
    for number in (0, 1):
        apply_micro_batch(tables, number, log)
        rows_after.append(rows_of(tables))
    return rows_after[0], rows_after[1]


def apply_micro_batch(
    tables: str, number: int, log: Log, spark: SparkSession | None = None
) -> None:
    start_apply(tables, spark=spark).apply(log[number], number, "query")


def rows_of(tables: str) -> Rows:
    reader = TableReader(tables)
    rows_by_table = {table.name: reader.read(table.name).to_pylist() for table in TABLES}
    for row in rows_by_table["load_progress"]:
        # Differ between two loads.
        del row["updated_at"], row["current_at"], row["table_versions"], row["writer_epoch"]
    return {name: sorted(rows, key=repr) for name, rows in rows_by_table.items()}


def old_schema(table: Table, version: int) -> pa.Schema:
    later = {
        name
        for added, tables in ADDED.items()
        if added > version
        for name in tables.get(table.name, ())
    }
    fields = [field for field in table.schema if field.name not in later]
    if version < 13 and table.name == "group_lag":
        fields = [
            field.with_nullable(field.nullable and field.name not in _NOT_NULL) for field in fields
        ]
    return pa.schema(fields)


_NOT_NULL = ("commit_timestamp", "commit_age_ms")
"""The columns of `group_lag` that were never null before version 13."""


def write_old(folder: Path, version: int, rows: Rows) -> str:
    """Tables as a release of this format version wrote them, one micro-batch behind."""
    tables = str(folder)
    versions: list[tuple[str, int]] = []
    for table in ALL_TABLES:
        if table.name in _later_tables(version):
            continue
        schema = old_schema(table, version)
        DeltaTable.create(
            table.path(tables),
            schema=schema,
            partition_by=list(table.partition_by) or None,
            configuration={} if table is not LOAD_PROGRESS else old_properties(version),
            raise_if_key_not_exists=False,
        )
        of_table = [dict(row) for row in rows.get(table.name, ())]
        if table is LOAD_PROGRESS:
            for row in of_table:
                row.update(table_versions=versions, updated_at=0)
                row.update(current_at=None, writer_epoch=None)
        written = pa.Table.from_pylist(
            [{name: row[name] for name in schema.names} for row in of_table], schema=schema
        )
        write_deltalake(table.path(tables), written, mode="append")
        versions.append((table.name, 1))
    return tables


def _later_tables(version: int) -> set[str]:
    """The tables that came with a later format version."""
    return {
        name
        for added, tables in ADDED.items()
        if added > version
        for name, columns in tables.items()
        if not columns
    }


def old_properties(version: int) -> dict[str, str]:
    named = {"format_version": str(version), "cluster_id": "cluster", "topic_id": "topic"}
    named |= {"log_partitions": "50", "semantics": "coordinator"}
    named["offsets_retention_ms"] = "1000"
    return {f"coordinator_state.{name}": value for name, value in named.items()}


@pytest.mark.parametrize(
    ("engine_session", "version"),
    [
        *(("driver", version) for version in (9, 11, 12)),
        pytest.param("driver", 10, marks=pytest.mark.long),
        pytest.param("spark", 9, marks=(*SPARK_ENGINE.marks, pytest.mark.release)),
    ],
    indirect=["engine_session"],
)
def test_what_is_migrated_goes_on_as_if_it_had_always_been(
    tmp_path: Path,
    engine_session: SparkSession | None,
    version: int,
    log: Log,
    current: tuple[Rows, Rows],
) -> None:
    tables = write_old(tmp_path, version, current[0])
    with pytest.raises(ConfigurationError, match=f"version {version}, .* maintain"):
        TableReader(tables)

    open_for_writing(tables, "test")

    assert rows_of(tables) == current[0]
    assert properties_of(tables, LOAD_PROGRESS)[PROPERTY_FORMAT_VERSION] == FORMAT_VERSION
    assert TableReader(tables).offsets_retention_ms == 1_000
    for table in ALL_TABLES:
        opened = DeltaTable(table.path(tables))
        nullable = {field.name: field.nullable for field in opened.schema().fields}
        assert nullable.keys() == set(table.schema.names)
        if table.name == "group_lag":
            assert nullable["commit_timestamp"]
            assert nullable["commit_age_ms"]
        protocol = opened.protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)

    apply_micro_batch(tables, 1, log, engine_session)

    assert rows_of(tables) == current[1]
    # As they were before, what came later is null.
    before = TableReader(tables, as_of=1)
    assert before.read("group_members").num_rows == len(current[0]["group_members"])


def test_other_topics_are_loaded_after_a_migration(
    tmp_path: Path, current: tuple[Rows, Rows]
) -> None:
    tables = write_old(tmp_path, 9, current[0])
    transactions = TopicLog(TRANSACTION_STATE_TOPIC, log_partition=3)
    transactions.append((transaction_key(), transaction_value()), (transaction_key(), b"garbage"))
    apply = start_apply(tables)
    follow(apply.progress, [TRANSACTION_STATE_TOPIC])
    apply.apply(transactions.rows(), 1, "query")
    reader = TableReader(tables)
    for name in ("transactions", "transaction_events", "topic_progress"):
        assert reader.read(name)["log_partition"].to_pylist() == [3]
    topics = reader.read("quarantine")["log_topic"].to_pylist()
    assert sorted(set(topics)) == [OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC]


def test_one_that_was_ended_in_the_middle_is_done_again(
    tmp_path: Path, current: tuple[Rows, Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = write_old(tmp_path, 9, current[0])

    def crash(*_arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(migration, "set_properties", crash)
        open_for_writing(tables, "test")
    assert properties_of(tables, LOAD_PROGRESS)[PROPERTY_FORMAT_VERSION] == "9"
    open_for_writing(tables, "test")
    assert rows_of(tables) == current[0]
    versions = versions_of(tables)
    open_for_writing(tables, "test")
    fenced = {name: version + 1 for name, version in versions.items()}
    assert versions_of(tables) == fenced, "a folder of the current format is only fenced"


@pytest.mark.parametrize(
    "engine_session",
    ["driver", pytest.param("spark", marks=(*SPARK_ENGINE.marks, pytest.mark.release))],
    indirect=True,
)
def test_columns_of_a_later_release_stay_null(
    tmp_path: Path,
    engine_session: SparkSession | None,
    log: Log,
    current: tuple[Rows, Rows],
) -> None:
    """As a migration leaves them that was killed, and another program that adds a column."""
    tables = str(tmp_path / "tables")
    tables_folder.create(tables, LoadProgress(**IDENTITY), log_partitions=50)
    apply_micro_batch(tables, 0, log, engine_session)
    for table in ALL_TABLES:
        DeltaTable(table.path(tables)).alter.add_columns([Field("later", PrimitiveType("string"))])
    apply_micro_batch(tables, 1, log, engine_session)
    assert rows_of(tables) == current[1]
    for table in ALL_TABLES:
        later = DeltaTable(table.path(tables)).to_pyarrow_table(columns=["later"])["later"]
        assert later.null_count == len(later)


@pytest.mark.parametrize(
    ("version", "said"),
    [(8, "cannot be migrated"), (int(FORMAT_VERSION) + 1, "which a newer release created")],
)
def test_what_cannot_be_migrated_is_left_as_it_is(
    tmp_path: Path, version: int, said: str, current: tuple[Rows, Rows]
) -> None:
    tables = write_old(tmp_path, version, current[0])
    with pytest.raises(ConfigurationError, match=said):
        open_for_writing(tables, "test")
    assert DeltaTable(LOAD_PROGRESS.path(tables)).version() == 1
    for command in ("maintain", "show groups"):
        refused = call(*command.split(), "--tables", tables, exit_code=2)
        assert said in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_maintain_migrates_what_no_run_writes_to_any_more(
    tmp_path: Path, current: tuple[Rows, Rows]
) -> None:
    tables = write_old(tmp_path, 9, current[0])
    assert "maintain" in call("show", "groups", "--tables", tables, exit_code=2).stderr
    said = call("maintain", "--tables", tables).stderr
    assert f"from format version 9 to {FORMAT_VERSION}" in said
    shown = call("show", "members", "--tables", tables, "--output", "json").stdout
    members = [json.loads(line)["member_id"] for line in shown.splitlines()]
    assert sorted(members) == sorted(row["member_id"] for row in current[0]["group_members"])
    assert PROPERTY_OFFSETS_RETENTION_MS in properties_of(tables, LOAD_PROGRESS)
