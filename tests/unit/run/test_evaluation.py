"""The tables of lag and status that `run` keeps, evaluation after evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from coordinator_state.insight.judged_changes import AGEING
from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.tables.creation import set_properties
from streaming.tables.delta import CHANGE_DATA_FEED
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_LAG,
    GROUP_STATUS,
    JUDGED_TABLES,
    STATUS_CHANGES,
    Table,
)
from streaming.tables.writer import Writer
from tests.support.tables.incident_tables import STEP_S, Cluster, Snapshots, moment
from tests.support.tables.status_changes import contradictions
from tests.support.tables.tables_folder import Crash, Row, create_tables

SECONDS = range(-60, 181, 30)


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """A group that stops and goes on, one that appears, and one that rests."""
    cluster = Cluster(seconds=-330)
    cluster.members("pays")
    for t in range(-330, 301, STEP_S):
        end = cluster.produce("pays", 500)
        if not 0 <= t < 120:
            cluster.commit("pays", end - 10)
        if t == 60:
            cluster.commit("new", cluster.produce("new", 5))
        if t == -330:
            cluster.commit("rests", cluster.produce("rests", 5))
        cluster.step()
    return cluster.snapshots(create_tables(tmp_path_factory.mktemp("tables")))


def evaluation_at(snapshots: Snapshots, seconds: float) -> Evaluation:
    reader = snapshots.reader(moment(seconds))
    assert reader is not None
    return Evaluation.of(reader, at=moment(seconds))


def rows_of(tables: str, table: Table) -> list[Row]:
    rows: list[Row] = TableReader(tables).read(table.name).to_pylist()
    return rows


def lasting(rows: Sequence[Row], table: Table) -> dict[tuple[object, ...], Row]:
    """The rows by key, without the columns that change although nothing happened."""
    return {
        tuple(row[name] for name in table.key): {k: v for k, v in row.items() if k not in AGEING}
        for row in rows
    }


def assert_kept(tables: str, evaluation: Evaluation) -> None:
    for table, rows in (
        (GROUP_LAG, evaluation.group_lag(with_reasons=True)),
        (GROUP_STATUS, evaluation.group_status(with_reasons=True)),
    ):
        kept = rows_of(tables, table)
        assert lasting(kept, table) == lasting(rows.to_pylist(), table)
        reasons = {row["reason"] for row in rows.to_pylist()}
        for row in kept:
            age = evaluation.at - row["evaluated_at"]
            assert timedelta(0) <= age <= timedelta(seconds=90)
            assert age or row["reason"] in reasons


@pytest.mark.parametrize(
    ("crashes", "has_feed"),
    [
        ((), False),
        ((), True),
        (range(1, 80, 2), False),
        pytest.param(range(0, 80, 3), False, marks=pytest.mark.long),
        pytest.param(range(0, 80, 4), True, marks=pytest.mark.long),
    ],
    ids=str,
)
def test_the_tables_have_each_evaluation_and_every_change_once(
    snapshots: Snapshots,
    tmp_path: Path,
    crashes: Sequence[int],
    has_feed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the process is killed before or after a write; the numbers count both."""
    tables = create_tables(tmp_path / "tables")
    writer = open_for_writing(tables, "test")
    if has_feed:
        for table in JUDGED_TABLES:
            set_properties(writer.epoch, table, {CHANGE_DATA_FEED: "true"})
    places = iter(range(10_000))
    left = set(crashes)

    def crash() -> None:
        if next(places) in left:
            raise Crash

    for name in ("append", "merge"):
        write = getattr(Writer, name)

        def crashing(*args: object, write: object = write, **options: object) -> object:
            crash()
            version = write(*args, **options)  # type: ignore[operator]
            crash()
            return version

        monkeypatch.setattr(Writer, name, crashing)
    kept = StatusEvaluation(writer)
    for seconds in SECONDS:
        evaluation = evaluation_at(snapshots, seconds)
        for _ in range(9):
            try:
                kept.keep(evaluation)
                break
            except Crash:
                kept = StatusEvaluation(writer)
        assert_kept(tables, evaluation)
        assert list(contradictions(TableReader(tables))) == []
    changes = TableReader(tables).read(STATUS_CHANGES.name).sort_by("changed_at").to_pylist()
    of_groups = [row for row in changes if row["topic"] is None]
    assert [
        (row["group_id"], row["status_before"], row["status_after"], row["changed_at"])
        for row in of_groups
    ] == [
        ("rests", "OK", "IDLE", moment(0)),
        ("new", None, "OK", moment(60)),
        ("pays", "OK", "STOP", moment(60)),
        ("pays", "STOP", "OK", moment(120)),
    ]
    assert [row["reason"] for row in of_groups if row["status_after"] == "STOP"] == [
        "no commit for 65 s, usually every 5 s; 6,510 behind, oldest 65 s, +100/s"
    ]
