"""The tables of lag and status that `run` keeps, evaluation after evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from shutil import copytree
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from coordinator_state.apply.columns import with_columns
from streaming.lag.evaluation import Evaluation
from streaming.lag.judged_changes import AGEING
from streaming.lag.status_history import standing_since, status_history
from streaming.run.evaluation import StatusEvaluation
from streaming.run.evaluation_rounds import EvaluationRounds
from streaming.run.monitoring.run_metrics import RunMetrics
from streaming.tables.creation import properties_of, set_properties
from streaming.tables.delta import CHANGE_DATA_FEED
from streaming.tables.evaluation_gaps import (
    BEGINNING,
    EvaluationGap,
    gaps_of,
    gaps_text,
    with_gap,
)
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_LAG,
    GROUP_STATUS,
    JUDGED_TABLES,
    PROPERTY_NOT_EVALUATED,
    STATUS_CHANGES,
    Table,
)
from streaming.tables.writer import Writer
from tests.support.tables.incident_tables import STEP_S, Cluster, Snapshots, moment
from tests.support.tables.status_changes import contradictions
from tests.support.tables.status_tables import create_status_tables
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


EvaluationAt = Callable[[float], Evaluation]


@pytest.fixture(scope="module")
def evaluation_at(snapshots: Snapshots) -> EvaluationAt:
    """Several tests keep the evaluations of the same moments."""
    return cache(snapshots.evaluation)


@pytest.fixture
def tables(empty_tables: str, tmp_path: Path) -> str:
    return str(copytree(empty_tables, tmp_path / "tables"))


def kept_in(tables: str, **options: Any) -> StatusEvaluation:
    """The evaluation of a `run` that begins."""
    return StatusEvaluation(open_for_writing(tables, "test"), **options)


def gaps(tables: str) -> Sequence[EvaluationGap]:
    return gaps_of(properties_of(tables, GROUP_STATUS))


def nothing(empty_tables: str, seconds: float) -> Evaluation:
    """The evaluation of no groups."""
    return Evaluation.of(TableReader(empty_tables), at=moment(seconds))


def periods_of(
    tables: str, group_id: str, since: float, until: float
) -> list[tuple[str | None, bool, float]]:
    """The statuses of a group, whether each is known, and the seconds when it ends."""
    reader = TableReader(tables)
    history = status_history(reader, group_id, since=moment(since), until=moment(until))
    return [
        (period.status, period.is_known, (period.end - moment(0)).total_seconds())
        for period in history.periods
    ]


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
        (GROUP_LAG, evaluation.group_lag()),
        (GROUP_STATUS, evaluation.statuses),
    ):
        kept = rows_of(tables, table)
        assert lasting(kept, table) == lasting(rows.to_pylist(), table)
        reasons = {row["reason"] for row in rows.to_pylist()}
        for row in kept:
            age = evaluation.at - row["evaluated_at"]
            assert timedelta(0) <= age <= timedelta(seconds=90)
            assert age or row["reason"] in reasons


def assert_recorded(tables: str, evaluations: Sequence[Evaluation]) -> None:
    """The history has the statuses of these evaluations, and nothing before the first one."""
    begin = evaluations[0].at - timedelta(hours=1)
    end = evaluations[-1].at + timedelta(seconds=1)
    for group_id in ("pays", "new", "rests", "nobody"):
        history = status_history(TableReader(tables), group_id, since=begin, until=end)
        periods = history.periods
        limits = [begin, *(period.end for period in periods)]
        assert [*(period.begin for period in periods), end] == limits
        assert not periods[0].is_known
        for evaluation in evaluations:
            (period,) = (each for each in periods if each.begin <= evaluation.at < each.end)
            statuses = rows_by_group(evaluation)
            assert (period.status, period.is_known) == (statuses.get(group_id), True)


def rows_by_group(evaluation: Evaluation) -> dict[str, str]:
    names = ("group_id", "status")
    return dict(zip(*(evaluation.statuses[name].to_pylist() for name in names), strict=True))


def crash_at(numbers: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Be killed before or after writes, which these numbers count; clear the result to stop it."""
    places = iter(range(10_000))
    left = set(numbers)

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
    return left


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
    evaluation_at: EvaluationAt,
    tables: str,
    empty_tables: str,
    crashes: Sequence[int],
    has_feed: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the process is killed before or after a write; the numbers count both."""
    writer = open_for_writing(tables, "test")
    if has_feed:
        for table in JUDGED_TABLES:
            set_properties(writer.epoch, table, {CHANGE_DATA_FEED: "true"})
    left = crash_at(crashes, monkeypatch)
    kept = StatusEvaluation(writer)
    evaluations = [
        *map(evaluation_at, (-120, -90)),
        # All groups are deleted, and come back.
        nothing(empty_tables, -75),
        *map(evaluation_at, SECONDS),
    ]
    is_kept = []
    for evaluation in evaluations:
        try:
            kept.keep(evaluation)
        except Crash:
            kept = StatusEvaluation(writer)
            if evaluation is not evaluations[-1]:
                continue
            left.clear()
            kept.keep(evaluation)
        is_kept.append(evaluation)
        assert_kept(tables, evaluation)
        assert list(contradictions(TableReader(tables))) == []
        if not evaluation.lags.num_rows:
            kept = StatusEvaluation(writer)
    assert_recorded(tables, is_kept)
    if crashes:
        return
    changes = TableReader(tables).read(STATUS_CHANGES.name).sort_by("changed_at").to_pylist()
    group_changes = [row for row in changes if row["topic"] is None]
    assert sorted(
        (row["changed_at"], row["group_id"], str(row["status_before"]), str(row["status_after"]))
        for row in group_changes
    ) == [
        *((moment(-120), group, "None", "OK") for group in ("pays", "rests")),
        *((moment(-75), group, "OK", "None") for group in ("pays", "rests")),
        *((moment(-60), group, "None", "OK") for group in ("pays", "rests")),
        (moment(0), "rests", "OK", "IDLE"),
        (moment(60), "new", "None", "OK"),
        (moment(60), "pays", "OK", "STOP"),
        (moment(120), "pays", "STOP", "OK"),
    ]
    assert [row["reason"] for row in group_changes if row["status_after"] == "STOP"] == [
        "no commit for 65 s, usually within 5 s; 6,510 behind, oldest 65 s, +100/s"
    ]


@pytest.mark.parametrize("is_restarted", [False, True])
def test_the_statuses_between_two_evaluations_far_apart_are_not_known(
    evaluation_at: EvaluationAt, tables: str, is_restarted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = kept_in(tables)
    for seconds in (-120, -60, 0):
        kept.keep(evaluation_at(seconds))
    if is_restarted:
        # The gap is written before the rows that end it.
        crash_at([0], monkeypatch)
        with pytest.raises(Crash):
            StatusEvaluation(kept.writer).keep(evaluation_at(150))
        kept = StatusEvaluation(kept.writer)
    for seconds in (180, 240):
        kept.keep(evaluation_at(seconds))

    # `pays` stopped and went on meanwhile.
    assert periods_of(tables, "pays", -600, 300) == [
        *((None, False, -120), ("OK", True, 0)),
        *((None, False, 180), ("OK", True, 300)),
    ]
    assert periods_of(tables, "new", -60, 240) == [
        *((None, True, 0), (None, False, 180), ("OK", True, 240)),
    ]
    # Nothing changed in these spans.
    assert periods_of(tables, "pays", -30, -10) == [("OK", True, -10)]
    assert periods_of(tables, "nobody", 190, 230) == [(None, True, 230)]
    assert periods_of(tables, "pays", 190, 500)[-1] == (None, False, 500)
    reader = TableReader(tables)
    (change,) = status_history(reader, "rests", since=moment(-60), until=moment(300)).changes
    assert (change.at, change.before, change.after) == (moment(0), "OK", "IDLE")
    # It appeared, or was there before.
    assert not status_history(reader, "new", since=moment(-60), until=moment(300)).changes


@pytest.mark.parametrize(
    ("moments", "gaps_then"),
    [
        # Every minute and a half.
        ((-90, 0, 90), [(None, -90)]),
        ((-120, 60), [(None, -120), (-120, 60)]),
        # It was ahead, and then two evaluations are within the gap.
        ((-120, 240, -60, -30), [(None, -120), (-120, -60)]),
        # It was behind.
        ((0, 60, -300, 120), [(None, 0)]),
        ((0, 60, -300, 300), [(None, 0), (60, 300)]),
    ],
)
def test_a_wrong_clock_makes_no_gap(
    evaluation_at: EvaluationAt,
    tables: str,
    moments: Sequence[int],
    gaps_then: Sequence[tuple[int | None, int]],
) -> None:
    kept = kept_in(tables)
    for seconds in moments:
        kept.keep(evaluation_at(seconds))
    assert gaps(tables) == [
        (BEGINNING if begin is None else moment(begin), moment(end)) for begin, end in gaps_then
    ]


@pytest.mark.parametrize("crashes", [(), range(1, 80, 2), range(0, 80, 3)], ids=str)
def test_changes_that_were_recorded_while_the_clock_was_ahead_contradict_no_other(
    evaluation_at: EvaluationAt,
    tables: str,
    crashes: Sequence[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither when the clock is right again, nor when it has come to their time."""
    left = crash_at(crashes, monkeypatch)
    kept = kept_in(tables)
    # `pays` stops at 60, and goes on at 120; it was ahead twice.
    for number, seconds in enumerate((-120, -60, 60, -30, 0, 300, 30, 90, 240, 330)):
        evaluation = evaluation_at(seconds)
        if number == 8:
            left.clear()
        try:
            kept.keep(evaluation)
        except Crash:
            kept = StatusEvaluation(kept.writer)
            continue
        assert_kept(tables, evaluation)
        ahead = {moment(60), moment(300)}
        assert list(contradictions(TableReader(tables), evaluation.at, ahead)) == []
        if number % 3 == 0:
            kept = StatusEvaluation(kept.writer)


def test_a_status_begins_where_it_began_before_a_restart(
    evaluation_at: EvaluationAt, tables: str
) -> None:
    """`run` is stopped for four minutes; its first evaluation knows nothing as yet.

    The group stops at 0 s, is `STOP` at 60 s, and goes on at 120 s.
    """

    def keep(*moments: float, unknown: Sequence[float] = ()) -> dict[str, Row]:
        """A `run` that begins, and ends after these moments."""
        kept = kept_in(tables)
        for seconds in moments:
            evaluation = evaluation_at(seconds)
            if seconds in unknown:
                stale = pa.repeat("UNKNOWN", evaluation.statuses.num_rows)
                evaluation.statuses = with_columns(evaluation.statuses, {"status": stale})
            kept.keep(evaluation)
            assert list(contradictions(TableReader(tables), evaluation.at)) == []
        return {row["group_id"]: row for row in rows_of(tables, GROUP_STATUS)}

    # What the first evaluation sees may be older.
    assert keep(-60)["pays"]["is_status_older"] is True
    first = keep(30, 60)
    assert (first["pays"]["status"], first["pays"]["is_status_older"]) == ("STOP", False)
    again = keep(90, 95, unknown=[90])
    assert again["pays"]["status_since"] == first["pays"]["status_since"] == moment(60)
    assert again["pays"]["is_status_older"] is False
    # Also if it ends while nothing is known.
    assert keep(100, unknown=[100])["pays"]["status"] == "UNKNOWN"
    assert keep(105)["pays"]["status_since"] == moment(60)
    reader = TableReader(tables)
    statuses = pa.table({"group_id": ["pays", "rests"], "status": ["STOP", "UNKNOWN"]})
    assert standing_since(reader, statuses, moment(105)) == {"pays": moment(60)}
    # A status that is another one after a time without evaluations may be older.
    later = keep(290)
    assert (later["pays"]["status"], later["pays"]["status_since"]) == ("OK", moment(290))
    assert later["pays"]["is_status_older"] is True


def test_evaluations_as_far_apart_as_the_interval_says_leave_no_gap(
    evaluation_at: EvaluationAt, tables: str
) -> None:
    kept = kept_in(tables, interval_s=180)
    for seconds in (-120, 60, 240):
        kept.keep(evaluation_at(seconds))
    assert gaps(tables) == [(BEGINNING, moment(-120))]


def test_before_a_change_whose_day_is_deleted_nothing_is_known(
    evaluation_at: EvaluationAt, tables: str
) -> None:
    kept = kept_in(tables)
    for seconds in (-60, 0, 60):
        kept.keep(evaluation_at(seconds))
    DeltaTable(STATUS_CHANGES.path(tables)).delete()
    assert periods_of(tables, "rests", -30, 60) == [(None, False, 0), ("IDLE", True, 60)]


def test_without_groups_the_time_of_the_evaluation_is_kept(
    evaluation_at: EvaluationAt, tables: str, empty_tables: str
) -> None:
    kept = kept_in(tables)
    kept.keep(evaluation_at(0))
    for seconds in range(30, 631, 30):
        kept.keep(nothing(empty_tables, seconds))
    StatusEvaluation(kept.writer).keep(nothing(empty_tables, 660))
    assert gaps(tables) == [(BEGINNING, moment(0))]
    assert periods_of(tables, "pays", 0, 660) == [("OK", True, 30), (None, True, 660)]


def test_rows_of_an_earlier_release_say_nothing_of_gaps(
    evaluation_at: EvaluationAt, tables: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(StatusEvaluation, "_record_gap", lambda *_: False)
        kept_in(tables).keep(evaluation_at(0))
    kept_in(tables).keep(evaluation_at(60))
    assert gaps(tables) == [(BEGINNING, moment(60))]


def test_of_too_many_gaps_the_oldest_are_one() -> None:
    kept: Sequence[EvaluationGap] = []
    for number in range(150):
        kept = with_gap(kept, EvaluationGap(moment(number), moment(number + 0.5)))
    assert len(kept) == 100
    assert kept[0] == (moment(0), moment(50.5))
    longer = with_gap(kept, EvaluationGap(moment(148.2), moment(200)))
    assert longer[-1] == (moment(148), moment(200))
    assert gaps_of({PROPERTY_NOT_EVALUATED: gaps_text(kept)}) == kept


def test_the_interval_grows_with_the_duration_and_metrics_have_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times_s = iter([0, 2, 10, 16, 45, 35, 60, 61])
    writer = open_for_writing(create_status_tables(tmp_path), "test")
    used_s = iter([0, 1, 1, 3, 4, 5])
    rounds = EvaluationRounds(
        StatusEvaluation(writer, interval_s=5.0),
        RunMetrics(),
        clock=lambda: float(next(times_s)),
        processor=lambda: float(next(used_s)),
    )

    def measured() -> tuple[float | None, ...]:
        value_of = rounds.metrics.registry.get_sample_value
        name = "coordinator_state_run_evaluation"
        return (
            *(value_of(f"{name}_total", {"outcome": each}) for each in ("done", "failed")),
            *(value_of(f"{name}_{each}") for each in ("seconds", "interval_seconds")),
        )

    rounds.evaluate()
    # The first one loads code, so it does not count.
    assert measured() == (1, 0, 2, 5)
    # Nothing was written since, so it rests.
    rounds.evaluate()
    assert measured() == (1, 0, 2, 5)
    rounds.evaluate()
    # By the processor time, not by the 29 s that it took.
    assert measured() == (2, 0, 29, 20)
    # Too early.
    rounds.evaluate()
    assert measured() == (2, 0, 29, 20)
    monkeypatch.setattr(StatusEvaluation, "keep", lambda *_arguments: 1 / 0)
    rounds.evaluate()
    assert measured() == (2, 1, 1, 20)
