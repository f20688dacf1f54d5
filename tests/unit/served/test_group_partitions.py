"""The partitions of a group as columns, held to the rows of the snapshot."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.insight.group_status import Status
from streaming.served.group_partitions import GroupPartitions
from streaming.served.snapshot import ServedSnapshot
from streaming.tables.reader import TableReader
from tests.support.tables.tabbed_tables import BILLING, CONSUMERS, create_tabbed_tables

Row = dict[str, Any]

_SCHEMA = pa.schema(
    [
        *(("topic", pa.string()), ("member_id", pa.string()), ("partition", pa.int32())),
        *(("lag", pa.int64()), ("time_lag_ms", pa.int64()), ("time_lag_at_least_ms", pa.int64())),
        ("rank", pa.int64()),
    ]
)
_MEASURE = st.none() | st.integers(0, 1_000_000)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "topic": st.sampled_from("ab"),
            "member_id": st.sampled_from(["m", "n", None]),
            "partition": st.integers(0, 9),
            **dict.fromkeys(("lag", "time_lag_ms", "time_lag_at_least_ms"), _MEASURE),
            "rank": st.integers(0, len(Status) - 1),
        }
    )
)


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> ServedSnapshot:
    tables: Path = tmp_path_factory.mktemp("partitions") / "tables"
    return ServedSnapshot(TableReader(create_tabbed_tables(tables)))


def test_rows_are_those_of_the_snapshot(snapshot: ServedSnapshot) -> None:
    partitions = GroupPartitions.of(snapshot, BILLING)
    wanted = snapshot.partitions_of(BILLING)
    assert partitions.rows(np.arange(len(partitions))) == wanted
    assert partitions.column("status").to_pylist() == [row["status"] for row in wanted]
    member_partitions = partitions.where(member_id=CONSUMERS[0], topic="invoices")
    assert member_partitions.rows(np.arange(len(member_partitions))) == [
        row for row in wanted if (row["member_id"], row["topic"]) == (CONSUMERS[0], "invoices")
    ]
    assert len(GroupPartitions.of(snapshot, "nobody")) == 0


@given(_ROWS, st.sampled_from(["topic", "member_id"]))
def test_totals(rows: list[Row], name: str) -> None:
    columns = pa.Table.from_pylist(rows, _SCHEMA)
    totals = GroupPartitions(columns).by(cast("Literal['topic', 'member_id']", name))
    assert {row[name]: row for row in totals} == _totals(rows, name)
    known = [-1 if row["lag"] is None else -row["lag"] for row in totals]
    assert known == sorted(known)


def _totals(rows: list[Row], name: str) -> dict[str | None, Row]:
    whole = sum(row["lag"] or 0 for row in rows)
    totals = {}
    for key in {row[name] for row in rows}:
        own = [row for row in rows if row[name] == key]
        lags = [row["lag"] for row in own if row["lag"] is not None]
        totals[key] = {
            **{name: key, "partitions": len(own), "lag": sum(lags) if lags else None},
            "max_lag": max(lags, default=None),
            **{f"max_{lag}": _max(lag, own) for lag in ("time_lag_ms", "time_lag_at_least_ms")},
            "status": list(Status)[max(row["rank"] for row in own)].value,
            "share": sum(lags) / whole if whole else None,
        }
    return totals


def _max(name: str, rows: list[Row]) -> int | None:
    return max((row[name] for row in rows if row[name] is not None), default=None)
