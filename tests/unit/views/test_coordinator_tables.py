"""The Python API: typed rows that are what the tables and the command line have."""

from __future__ import annotations

import sys
from dataclasses import is_dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any, get_args, get_type_hints

import duckdb
import polars
import pytest
from deltalake import DeltaTable

import coordinator_state.apply.rows
import coordinator_state.apply.topic_rows
import streaming.lag.rows
import streaming.tables.rows
from coordinator_state.apply.columns import nullable, schema_of
from coordinator_state.apply.rows import (
    CommittedOffsetRow,
    CoordinatorRecordRow,
    GroupEventRow,
    GroupRecordRow,
    GroupRow,
    MemberRow,
    OffsetCommitRow,
    PendingOffsetRow,
    QuarantinedRecordRow,
)
from coordinator_state.apply.topic_rows import (
    SharePartitionRow,
    TransactionEventRow,
    TransactionRow,
)
from streaming.errors import ConfigurationError
from streaming.lag.group_lag import GROUP_LAG, lag_totals
from streaming.lag.rows import (
    ExpiringOffsetRow,
    GroupLagRow,
    GroupStatusRow,
    LagTotalsRow,
    PartitionStatusRow,
)
from streaming.tables.rows import (
    AlertRow,
    ExternalOffsetRow,
    LoadProgressRow,
    OffsetSampleRow,
    TopicProgressRow,
)
from streaming.views import coordinator_tables, definitions
from streaming.views.coordinator_tables import CoordinatorTables, Rows
from streaming.views.definitions import SCHEMAS, OpenTransactionRow, SimpleGroupRow
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.status_tables import NOW, VERSION, create_status_tables

ROWS = {
    "alerts": (AlertRow, "alerts"),
    "coordinator_records": (CoordinatorRecordRow, "records"),
    "expiring_offsets": (ExpiringOffsetRow, "expiring_offsets"),
    "group_events": (GroupEventRow, "events"),
    "group_lag": (GroupLagRow, "lag"),
    "group_members": (MemberRow, "members"),
    "external_offsets": (ExternalOffsetRow, "external_offsets"),
    "group_offsets": (CommittedOffsetRow, "offsets"),
    "group_records": (GroupRecordRow, "group_records"),
    "group_status": (GroupStatusRow, "status"),
    "groups": (GroupRow, "groups"),
    "hanging_transactions": (OpenTransactionRow, "hanging_transactions"),
    "load_progress": (LoadProgressRow, "progress"),
    "log_offsets": (OffsetSampleRow, "offset_samples"),
    "offset_commits": (OffsetCommitRow, "history"),
    "open_transactions": (OpenTransactionRow, "open_transactions"),
    "partition_status": (PartitionStatusRow, "partition_status"),
    "pending_offsets": (PendingOffsetRow, "pending_offsets"),
    "quarantine": (QuarantinedRecordRow, "quarantine"),
    "share_partitions": (SharePartitionRow, "share_partitions"),
    "simple_groups": (SimpleGroupRow, "simple_groups"),
    "topic_progress": (TopicProgressRow, "topic_progress"),
    "transaction_events": (TransactionEventRow, "transaction_events"),
    "transactions": (TransactionRow, "transactions"),
}


def test_the_example_of_the_module_runs(
    tables: CoordinatorTables, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, rest = (coordinator_tables.__doc__ or "").partition("\n\n")
    example = dedent(rest).replace('"tables"', repr(tables.reader.tables))
    example = example.replace('"2026-11-21T03:14:00Z"', str(VERSION))
    exec(example, {})  # noqa: S102 - of our own module
    shown = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    now = CoordinatorTables(tables.reader.tables).status()
    assert shown == [[row.group_id, row.status] for row in now]
    assert shown


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> CoordinatorTables:
    folder = create_status_tables(tmp_path_factory.mktemp("status") / "tables")
    return CoordinatorTables(folder, as_of=VERSION)


def test_every_table_and_view_has_a_class() -> None:
    assert ROWS.keys() == SCHEMAS.keys()
    modules = (
        *(coordinator_state.apply.rows, coordinator_state.apply.topic_rows),
        *(streaming.tables.rows, streaming.lag.rows, definitions),
    )
    named = [one for module in modules for one in vars(module).values()]
    classes = {one for one in named if isinstance(one, type) and is_dataclass(one)}
    assert classes == {row_type for row_type, _ in ROWS.values()} | {LagTotalsRow}


def test_the_class_of_totals_has_their_columns() -> None:
    totals = lag_totals(GROUP_LAG.empty_table(), "topic").schema
    assert nullable(schema_of(LagTotalsRow)) == nullable(totals)


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_of_their_class(tables: CoordinatorTables, name: str) -> None:
    row_type, method = ROWS[name]
    found: Rows[Any] = getattr(tables, method)()
    assert found.arrow.column_names == SCHEMAS[name].names
    for row in found:
        assert isinstance(row, row_type)
        hints = get_type_hints(row_type)
        for column, hint in hints.items():
            may_be_null = type(None) in get_args(hint)
            assert may_be_null or getattr(row, column) is not None, column


def test_rows_are_a_sequence(tables: CoordinatorTables) -> None:
    found = tables.status()
    assert [row.group_id for row in found] == ["back", "idle", "loop", "new", "nothing", "old"]
    assert (found[-1].group_id, found[0].status, len(found)) == ("old", "REWIND", 6)
    assert [row.group_id for row in found[1:3]] == ["idle", "loop"]
    with pytest.raises(IndexError):
        found[6]


def test_rows_go_to_pandas(tables: CoordinatorTables) -> None:
    found = tables.lag()
    assert found.to_pandas()["lag"].tolist() == found.arrow["lag"].to_pylist()
    opened = DeltaTable(f"{tables.reader.tables}/group_offsets").to_pandas()
    assert sorted(opened["committed_offset"]) == sorted(
        r.committed_offset for r in tables.offsets()
    )


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_what_is_not_installed_is_said(
    tables: CoordinatorTables, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigurationError, match=f"this needs {package}: pip install {package}"):
        getattr(tables.lag(), f"to_{package}")()


def test_rows_go_to_polars(tables: CoordinatorTables) -> None:
    found = tables.lag()
    assert isinstance(found.to_polars(), polars.DataFrame)
    assert found.to_polars()["lag"].to_list() == found.arrow["lag"].to_pylist()


def test_a_group_alone(tables: CoordinatorTables) -> None:
    assert {row.group_id for row in tables.lag("old")} == {"old"}
    assert {row.group_id for row in tables.offsets("old")} == {"old"}
    (total,) = tables.lag_totals(group="old")
    assert (total.partitions, total.topic) == (2, None)
    (total,) = tables.lag_totals("topic", "old")
    assert total.topic == "t"


def test_the_command_line_says_the_same(tables: CoordinatorTables) -> None:
    told = json_lines(
        call(
            *("show", "status", "--tables", tables.reader.tables),
            *("--as-of", str(VERSION), "--output", "json"),
        )
    )
    assert told == tables.status().arrow.to_pylist()
    (answer, *_) = tables.offset_fetch("old", [("t", 0)])
    assert answer.committed_offset == 99


def test_unknown_rules_are_refused(tables: CoordinatorTables) -> None:
    wrong: Any = "nope"

    for judged in (tables.status, tables.partition_status):
        with pytest.raises(ConfigurationError, match="'nope': the rules are default and burrow"):
            judged(rules=wrong)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no folder"):
        CoordinatorTables(tmp_path / "no")


def test_the_past(tables: CoordinatorTables) -> None:
    assert tables.as_of(tables.version).version == tables.version
    assert tables.as_of("1").moment == NOW
    assert tables.refreshed().moment > NOW


def test_other_engines_read_them(tables: CoordinatorTables) -> None:
    path = f"{tables.reader.tables}/group_offsets"
    expected = sorted(row.committed_offset for row in tables.offsets())
    opened = DeltaTable(path)
    assert sorted(opened.to_pyarrow_table()["committed_offset"].to_pylist()) == expected
    assert sorted(polars.scan_delta(path).collect()["committed_offset"]) == expected
    queried = duckdb.from_arrow(opened.to_pyarrow_dataset()).order("committed_offset")
    assert [row[0] for row in queried.project("committed_offset").fetchall()] == expected
