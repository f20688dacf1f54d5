"""Readers get the lag and status that `run` keeps, or evaluate if it is of another moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from coordinator_state.insight.group_status import Status, StatusRules
from streaming.alerts.facts import Facts
from streaming.lag.evaluation import KEPT_FOR, Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.served.snapshot import ServedSnapshot
from streaming.tables import delta
from streaming.tables import reader as reader_module
from streaming.tables.folder import keep_up_to_date
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS
from streaming.tables.writer_epoch import WriterEpoch
from streaming.views.query import query
from streaming.views.snapshot import Snapshot
from tests.support.tables.status_tables import NOW, create_status_tables, offset
from tests.support.tables.tables_folder import apply_micro_batch

OpenAt = Callable[[timedelta], TableReader]
LATER = timedelta(seconds=20)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """Tables that were evaluated at `NOW`."""
    tables = create_status_tables(tmp_path)
    evaluation = Evaluation.of(TableReader(tables), at=NOW)
    StatusEvaluation(open_for_writing(tables, "test")).keep(evaluation)
    return tables


@pytest.fixture
def opened(tables: str, monkeypatch: pytest.MonkeyPatch) -> OpenAt:
    """Open the newest tables some time after `NOW`."""

    def open_at(later: timedelta) -> TableReader:
        monkeypatch.setattr(reader_module, "utc_now", lambda: NOW + later)
        return TableReader(tables)

    return open_at


def without_since(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["status_since"])


def test_the_kept_rows_are_those_of_a_new_evaluation(opened: OpenAt) -> None:
    reader = opened(LATER)
    kept, new = Evaluation.read(reader), Evaluation.of(reader, at=NOW)
    assert kept.is_kept
    assert kept.at == NOW
    assert kept.lags.num_rows > 4
    assert without_since(kept.group_lag()) == without_since(new.group_lag())
    assert without_since(kept.group_status()) == without_since(new.group_status())
    assert set(kept.statuses["status_since"].to_pylist()) == {NOW}
    some = Evaluation.read(reader, group_ids=["old", "back"])
    wanted = Evaluation.of(reader, at=NOW, group_ids=["old", "back"])
    assert some.is_kept
    assert without_since(some.group_lag()) == without_since(wanted.group_lag())


@pytest.mark.parametrize("is_loaded", [True, False])
@pytest.mark.parametrize("is_rewritten", [True, False])
def test_a_part_of_the_kept_rows_is_that_of_all(
    tables: str, opened: OpenAt, is_loaded: bool, is_rewritten: bool
) -> None:
    """Whether all of them were read before or not, and in files with views of strings."""
    if is_rewritten:
        DeltaTable(GROUP_LAG.path(tables)).update({"lag": "lag"})
    reader = opened(LATER)
    kept, new = Evaluation.read(reader), Evaluation.of(reader, at=NOW)
    if is_loaded:
        assert kept.lags.num_rows
    condition = (pc.field("group_id") == "old") & (pc.field("lag") > 0)
    assert without_since(kept.lags_where(condition)) == without_since(new.lags_where(condition))
    names = ["group_id", "topic", "partition", "lag", "status"]
    order = [(name, "ascending") for name in names[:3]]
    assert kept.lag_columns(names).sort_by(order) == new.lags.select(names)
    assert kept.topics == new.topics
    some = Evaluation.read(reader, group_ids=["old"])
    assert without_since(some.group_lag()) == without_since(
        new.lags_where(pc.field("group_id") == "old")
    )
    snapshot = Snapshot(reader)
    for select in ("sum(lag) FROM group_lag", "count(*) FROM partition_status"):
        answer = query(f"SELECT {select}", snapshot)
        assert answer == query(f"SELECT {select}", Snapshot(reader, at=NOW))
    assert snapshot.evaluation.is_kept
    # Another process reads them itself.
    assert snapshot.computed({"group_lag", "group_status", "partition_status"}) == {}
    assert snapshot.place.open({}).evaluation.is_kept
    assert not Snapshot(reader, at=NOW).place.open({}).evaluation.is_kept


@pytest.mark.parametrize(
    "later", [timedelta(seconds=-1), KEPT_FOR + timedelta(seconds=1), timedelta(hours=1)], ids=str
)
def test_rows_of_another_moment_are_not_used(opened: OpenAt, later: timedelta) -> None:
    evaluation = Evaluation.read(opened(later))
    assert not evaluation.is_kept
    assert evaluation.lags["evaluated_at"].to_pylist() == [NOW + later] * evaluation.lags.num_rows


def test_stale_tables_are_unknown_although_their_evaluation_is_not_old(
    tables: str, opened: OpenAt
) -> None:
    writer = open_for_writing(tables, "test")
    StatusEvaluation(writer).keep(Evaluation.of(TableReader(tables), at=NOW + LATER))
    evaluation = Evaluation.read(opened(timedelta(seconds=121)))
    assert set(evaluation.statuses["status"].to_pylist()) == {Status.UNKNOWN.value}


def test_other_limits_and_other_moments_are_evaluated(opened: OpenAt) -> None:
    reader = opened(LATER)
    assert not Evaluation.read(reader, rules=StatusRules(rebalances=60)).is_kept
    assert not Evaluation.read(reader, at=NOW + timedelta(seconds=10)).is_kept
    assert not Evaluation.read(TableReader(reader.tables, as_of=1)).is_kept


def test_the_limits_of_the_last_run_are_those_of_every_reader(tables: str, opened: OpenAt) -> None:
    keep_up_to_date(
        WriterEpoch.current(tables),
        log_partitions=TableReader(tables).log_partitions,
        offsets_retention_ms=604_800_000,
        snapshot_retention=timedelta(minutes=6),
        history="sampled",
        status_rules=StatusRules(rebalances=60),
    )
    reader = opened(LATER)
    assert Evaluation.read(reader, rules=StatusRules(rebalances=60)).is_kept
    assert not Evaluation.read(reader, rules=StatusRules()).is_kept
    for past in (reader, TableReader(tables, as_of=1)):
        snapshot = Snapshot(past, at=NOW)
        assert snapshot.group_list.of_groups(["loop"])["loop"]["status"] == Status.OK.value
    assert Facts(reader, NOW).snapshot.status_rules.rebalances == 60


def test_a_group_that_is_new_is_evaluated(tables: str, opened: OpenAt) -> None:
    apply_micro_batch(
        tables,
        progress=[{"updated_at": NOW}],
        groups=[{"group_id": "fresh", "member_count": 1, "state": "Stable"}],
        group_offsets=[offset("fresh", 100, 1)],
    )
    evaluation = Evaluation.read(opened(LATER), group_ids=["fresh"])
    assert evaluation.lags["group_id"].to_pylist() == ["fresh"]


def test_lag_of_a_group_whose_status_is_not_written_yet_is_left_out(
    tables: str, opened: OpenAt
) -> None:
    """`run` writes `group_lag` before `group_status`."""
    statuses = delta.rows_of(
        delta.open_version(GROUP_STATUS.path(tables), tables), tables, GROUP_STATUS
    )
    others = statuses.filter(pc.not_equal(statuses["group_id"], "old"))
    write_deltalake(GROUP_STATUS.path(tables), others, mode="overwrite")
    evaluation = Evaluation.read(opened(LATER))
    assert evaluation.is_kept
    for rows in (evaluation.lags, evaluation.statuses):
        assert "old" not in rows["group_id"].to_pylist()


def test_a_page_knows_since_when_a_group_has_its_status(opened: OpenAt) -> None:
    snapshot = ServedSnapshot(opened(LATER))
    assert snapshot.standing == dict.fromkeys(("back", "loop", "old"), NOW)


def test_the_state_of_an_alert_is_that_of_the_kept_rows(opened: OpenAt) -> None:
    reader = opened(LATER)
    facts = Facts(reader, reader.moment, StatusRules())
    assert facts.snapshot.evaluation.is_kept
