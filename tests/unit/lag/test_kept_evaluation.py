"""Readers get the lag and status that `run` keeps, or evaluate if it is of another moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from coordinator_state.apply.columns import with_columns
from coordinator_state.insight.group_status import Status, StatusRules
from streaming.alerts.facts import Facts
from streaming.alerts.rules import Rule
from streaming.dashboard.app import create_app
from streaming.lag.evaluation import KEPT_FOR, Evaluation
from streaming.lag.status_history import standing_since
from streaming.run.evaluation import StatusEvaluation
from streaming.served.snapshot import ServedSnapshot
from streaming.tables import delta
from streaming.tables import reader as reader_module
from streaming.tables.durations import DEFAULT_HISTORY_RESOLUTION
from streaming.tables.folder import keep_up_to_date
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUP_LAG, GROUP_STATUS, STATUS_CHANGES
from streaming.tables.writer_epoch import WriterEpoch
from streaming.views import lists
from streaming.views.query import query
from streaming.views.snapshot import Snapshot
from tests.support.browser.html import client_of
from tests.support.tables.demo_incidents import END, create_demo_tables
from tests.support.tables.status_tables import NOW, create_status_tables, offset
from tests.support.tables.tables_folder import apply_micro_batch
from tests.support.tables.topic_tables import create_topic_tables

OpenAt = Callable[[timedelta], TableReader]
LATER = timedelta(seconds=20)


def keep(tables: str, evaluation: Evaluation) -> None:
    StatusEvaluation(open_for_writing(tables, "test")).keep(evaluation)


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """Tables that were evaluated at `NOW`."""
    tables = create_status_tables(tmp_path)
    keep(tables, Evaluation.of(TableReader(tables), at=NOW))
    return tables


@pytest.fixture
def opened(tables: str, monkeypatch: pytest.MonkeyPatch) -> OpenAt:
    """Open the newest tables some time after `NOW`."""

    def open_at(later: timedelta) -> TableReader:
        monkeypatch.setattr(reader_module, "utc_now", lambda: NOW + later)
        return TableReader(tables)

    return open_at


def without_since(rows: pa.Table) -> pa.Table:
    return rows.drop_columns(["status_since", "is_status_older"])


def readers_of(snapshot: ServedSnapshot, topic: str) -> list[str]:
    readers = snapshot.ids(lists.topic_groups(topic))
    assert {row["group_id"] for row in snapshot.partitions_of_topic(topic)} == set(readers)
    return readers


def test_the_kept_rows_are_those_of_a_new_evaluation(opened: OpenAt) -> None:
    reader = opened(LATER)
    kept, new = Evaluation.read(reader), Evaluation.of(reader, at=NOW)
    assert kept.is_kept
    assert kept.at == NOW
    assert kept.lags.num_rows > 4
    assert without_since(kept.group_lag()) == without_since(new.group_lag())
    assert without_since(kept.statuses) == without_since(new.statuses)
    assert set(kept.statuses["status_since"].to_pylist()) == {NOW}
    some = Evaluation.read(reader, group_ids=["old", "back"])
    wanted = Evaluation.of(reader, at=NOW, group_ids=["old", "back"])
    assert some.is_kept
    assert without_since(some.group_lag()) == without_since(wanted.group_lag())


@pytest.mark.parametrize(
    ("is_loaded", "is_rewritten"), [(True, False), (False, False), (False, True)]
)
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
    "later",
    [-KEPT_FOR - timedelta(seconds=1), KEPT_FOR + timedelta(seconds=1), timedelta(hours=1)],
    ids=str,
)
def test_rows_of_another_moment_are_not_used(opened: OpenAt, later: timedelta) -> None:
    evaluation = Evaluation.read(opened(later))
    assert not evaluation.is_kept
    assert evaluation.lags["evaluated_at"].to_pylist() == [NOW + later] * evaluation.lags.num_rows


def test_stale_tables_are_unknown_although_their_evaluation_is_not_old(
    tables: str, opened: OpenAt
) -> None:
    keep(tables, Evaluation.of(TableReader(tables), at=NOW + LATER))
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
        history_resolution=DEFAULT_HISTORY_RESOLUTION,
        status_rules=StatusRules(rebalances=60),
    )
    reader = opened(LATER)
    for past in (reader, TableReader(tables, as_of=1)):
        snapshot = Snapshot(past, at=NOW)
        assert snapshot.groups(["loop"])["loop"]["status"] == Status.OK.value
    assert Facts(reader, NOW).snapshot.status_rules.rebalances == 60
    # `run` has not evaluated by the new limits yet.
    assert not Evaluation.read(reader).is_kept
    keep(tables, Evaluation.of(reader, at=NOW))
    evaluation = Evaluation.read(opened(LATER))
    assert evaluation.is_kept
    assert Status.REBALANCING_LOOP.value not in evaluation.statuses["status"].to_pylist()
    assert not Evaluation.read(opened(LATER), rules=StatusRules()).is_kept


def test_groups_that_are_new_or_deleted_since(tables: str, opened: OpenAt) -> None:
    reader = opened(LATER)
    others = [("group_id", "!=", "old")]
    rows = {
        name: reader.read(name, filters=others).to_pylist() for name in ("groups", "group_offsets")
    }
    rows["groups"].append({"group_id": "fresh", "member_count": 1, "state": "Stable"})
    rows["group_offsets"].append(offset("fresh", 99, 1))
    apply_micro_batch(tables, progress=[{"updated_at": NOW}], **rows)
    reader = opened(LATER)
    evaluation, new = Evaluation.read(reader), Evaluation.of(reader)
    assert evaluation.is_kept
    names = ["group_id", "topic", "partition", "committed_offset", "lag"]
    kept = evaluation.group_lag().select(names)
    assert kept == new.group_lag().select(names)
    assert "fresh" in kept["group_id"].to_pylist()
    assert evaluation.statuses["group_id"] == new.statuses["group_id"]
    (lag,) = evaluation.lags_where(pc.field("group_id") == "fresh")["lag"].to_pylist()
    assert lag == 1
    answer = query("SELECT lag FROM group_lag WHERE group_id = 'fresh'", Snapshot(reader))
    assert answer.to_pylist() == [{"lag": 1}]
    snapshot = ServedSnapshot(reader)
    readers = {row["group_id"] for row in new.group_lag().to_pylist()}
    for reading in (
        query("SELECT group_id FROM group_lag", snapshot)["group_id"].to_pylist(),
        snapshot.ids(lists.offsets_at(None)),
        [group for topic in evaluation.topics.to_pylist() for group in readers_of(snapshot, topic)],
    ):
        assert set(reading) == readers
    client = client_of(create_app({"tables": tables}))
    assert client.get("/api/v1/groups/fresh").json()["group"]["lag"] == 1
    assert client.get("/api/v1/groups/old").status_code == 404


def test_an_inconsistent_reader_evaluates(tables: str, opened: OpenAt) -> None:
    opened(LATER)
    assert Evaluation.read(TableReader(tables)).is_kept
    assert not Evaluation.read(TableReader(tables, consistent=False)).is_kept


def test_rules_about_ages_are_of_now(opened: OpenAt) -> None:
    """Kept rows are up to a minute old."""
    reader = opened(LATER)
    facts = Facts(reader, reader.moment, StatusRules())
    for condition, is_kept in (
        ({"commit_age": "> 5m"}, False),
        ({"lag": "> 5", "time_lag": "> 1s"}, False),
        ({"lag": "> 5"}, True),
        ({"status": "STOP"}, True),
    ):
        rule = Rule.model_validate({"name": "rule", **condition})
        assert facts._evaluation_for(rule).is_kept == is_kept


def test_a_group_whose_status_is_not_written_yet_is_evaluated(tables: str, opened: OpenAt) -> None:
    """`run` writes `group_lag` before `group_status`."""
    statuses = delta.rows_of(
        delta.open_version(GROUP_STATUS.path(tables), tables), tables, GROUP_STATUS
    )
    others = statuses.filter(pc.not_equal(statuses["group_id"], "old"))
    write_deltalake(GROUP_STATUS.path(tables), others, mode="overwrite")
    evaluation = Evaluation.read(opened(LATER))
    assert evaluation.is_kept
    # Its rows are evaluated, and not twice.
    old = evaluation.lags_where(pc.field("group_id") == "old")
    assert old["evaluated_at"].to_pylist() == [NOW + LATER] * 2
    assert "old" in evaluation.statuses["group_id"].to_pylist()


def test_a_page_knows_since_when_a_group_has_its_status(opened: OpenAt) -> None:
    snapshot = ServedSnapshot(opened(LATER))
    groups = snapshot.evaluation.statuses["group_id"].to_pylist()
    assert snapshot.status_since == dict.fromkeys(groups, NOW)
    # At other moments the recorded changes tell it, for the groups that still have that status.
    past = ServedSnapshot(opened(2 * KEPT_FOR), at=NOW + LATER)
    assert not past.evaluation.is_kept
    assert past.status_since == dict.fromkeys(groups, NOW)
    assert ServedSnapshot(opened(LATER), at=NOW - LATER).status_since == {}
    changed = past.evaluation.statuses.filter(pc.field("group_id") == "old")
    changed = with_columns(changed, {"status": pa.array(["OK"])})
    assert standing_since(past.reader, changed, NOW + LATER) == {}
    # The group was deleted since then, and has come back.
    changes = past.reader.read("status_changes", filters=[("group_id", "=", "old")])
    (change,) = changes.filter(pc.field("topic").is_null()).to_pylist()
    deletion = change | {"changed_at": NOW + timedelta(seconds=1), "status_after": None}
    rows = pa.Table.from_pylist([deletion], STATUS_CHANGES.schema)
    write_deltalake(STATUS_CHANGES.path(past.reader.tables), rows, mode="append")
    reader = opened(2 * KEPT_FOR)
    assert "old" not in standing_since(reader, past.evaluation.statuses, NOW + LATER)


def create_topics(folder: Path) -> str:
    return create_topic_tables(folder, NOW)


@pytest.mark.parametrize("create", [create_status_tables, create_topics, create_demo_tables])
def test_a_set_of_groups_has_the_rows_that_it_has_among_all(
    create: Callable[[Path], str], tmp_path: Path
) -> None:
    """Readers evaluate one group, or those that are new, beside the rows that `run` keeps."""
    reader = TableReader(create(tmp_path))
    moments: list[datetime] = [NOW, NOW - timedelta(seconds=40), NOW + timedelta(minutes=1)]
    for moment in [END] if create is create_demo_tables else moments:
        every = Evaluation.of(reader, at=moment)
        ids = every.statuses["group_id"].to_pylist()
        assert len(ids) > 2
        parts = [Evaluation.of(reader, at=moment, group_ids=ids[number::3]) for number in range(3)]
        for rows, part_rows, key in (
            (every.group_lag(), [part.group_lag() for part in parts], ("group_id", "topic")),
            (every.statuses, [part.statuses for part in parts], ("group_id",)),
        ):
            order = [(name, "ascending") for name in (*key, "partition")]
            assert pa.concat_tables(part_rows).sort_by(order) == rows.sort_by(order)
