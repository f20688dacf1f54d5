"""Partitions that a group reads without a committed offset, and their unread records."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.insight.explanation import explain
from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.alerts.facts import condition_findings
from streaming.alerts.rules import rules_without_sinks
from streaming.lag.evaluation import Evaluation
from streaming.lag.gathered_facts import group_facts
from streaming.lag.paces import KnownPaces
from streaming.tables.reader import TableReader
from tests.support.tables.incident_tables import STEP_S, Cluster, member_id_of, moment
from tests.support.tables.sample_rows import sample
from tests.support.tables.status_tables import NOW, at, offset
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

Step = Callable[[Cluster, int], None]
Row = dict[str, Any]
GROUP = "g"
_EXPANDED_AT_S = 600


def looks(
    folder: Path, step: Step, until_s: int, every_s: int = 60
) -> dict[int, tuple[Row, list[Row]]]:
    """The row of the group, and those of its partitions, at each look.

    Whoever evaluates again and again has the same rows as who evaluates once, at the last look.
    """
    cluster, known = Cluster(), KnownPaces()
    for t in range(0, until_s + 1, STEP_S):
        step(cluster, t)
        cluster.step(every_s)
    snapshots = cluster.snapshots(create_tables(folder))
    rows = {}
    for t in range(every_s, until_s + 1, every_s):
        reader = snapshots.reader(moment(t))
        assert reader is not None
        evaluation = Evaluation.of(reader, at=moment(t), known=known)
        lags = evaluation.group_lag()
        (group,) = evaluation.statuses.to_pylist()
        rows[t] = group | {"reader": reader}, lags.to_pylist()
        if t == until_s:
            assert lags == Evaluation.of(reader, at=moment(t)).group_lag()
    return rows


def explanation(group: Row) -> str:
    """The first evidence for the row of a group."""
    facts = group_facts(group["reader"], GROUP, at=group["evaluated_at"])
    assert facts is not None
    first = explain(facts).evidence[0]
    return f"{first.cause.value}: {first.text}"


def expand(cluster: Cluster, t: int, records: int = 50) -> None:
    """Two partitions become four, and records are produced to all of them."""
    for partition in range(2 if t < _EXPANDED_AT_S else 4):
        cluster.produce(GROUP, records, partition)


def test_all_records_of_a_partition_are_unread_that_is_created_while_the_group_is_empty(
    tmp_path: Path,
) -> None:
    def step(cluster: Cluster, t: int) -> None:
        expand(cluster, t)
        if t == 0:
            cluster.members(GROUP, (GROUP, 2))
        if t < 300:
            for partition in range(2):
                cluster.commit(GROUP, cluster.produce(GROUP, 0, partition), partition)
        elif t == 300:
            cluster.no_members(GROUP, 2)

    rows = looks(tmp_path, step, 1_200)
    assert len(rows[_EXPANDED_AT_S - 60][1]) == 2
    group, partitions = rows[720]
    assert [row["committed_offset"] for row in partitions] == [3_000, 3_000, None, None]
    # Another 50 records in each step, and those of the moment itself.
    unread = 50 * (120 // STEP_S + 1)
    assert [row["lag"] for row in partitions] == [4_250, 4_250, unread, unread]
    assert (group["lag"], group["is_lag_lower_bound"]) == (8_500 + 2 * unread, False)
    new = partitions[2]
    assert (new["status"], new["member_id"], new["commit_timestamp"]) == ("WARN", None, None)
    assert new["uncommitted_since"] == moment(_EXPANDED_AT_S)
    assert new["reason"] == (
        "no committed offset, and the group has no members: a start with "
        "auto.offset.reset=latest skips its records; 1,250 behind, oldest at least 2 min"
    )
    assert rows[1_200][1][2]["lag"] == 50 * (600 // STEP_S + 1)


def test_a_partition_whose_leader_was_away_at_first_is_not_new(tmp_path: Path) -> None:
    """It has a million old records, which a consumer that reads from `latest` does not want."""

    def step(cluster: Cluster, t: int) -> None:
        cluster.logs[GROUP, 2].end = 1_000_000
        cluster.logs[GROUP, 2].state = "unavailable" if t < 120 else "present"
        if t == 0:
            cluster.members(GROUP, (GROUP, 3))
        for partition in range(2):
            cluster.commit(GROUP, cluster.produce(GROUP, 50, partition), partition)

    rows = looks(tmp_path, step, 900)
    assert {group["status"] for t, (group, _) in rows.items() if t > 120} == {"OK"}


@pytest.mark.parametrize("pace_s", [5, 300])
def test_a_new_partition_may_wait_as_long_as_those_of_its_group(
    tmp_path: Path, pace_s: int
) -> None:
    """A sink that commits every five minutes commits a new partition as rarely."""

    def step(cluster: Cluster, t: int) -> None:
        for partition in range(2 if t < 1_800 else 3):
            end = cluster.produce(GROUP, 50, partition)
            if t % pace_s == 0 and partition < 2:
                cluster.commit(GROUP, end, partition)
        if t in (0, 1_800):
            cluster.members(GROUP, (GROUP, 3 if t else 2), generation=2 if t else 1)

    rows = looks(tmp_path, step, 3_000, every_s=300)
    new = {t: partitions[2]["status"] for t, (_, partitions) in rows.items() if t > 1_800}
    slow = {2_100: "OK", 2_400: "OK", 2_700: "OK", 3_000: "STOP"}
    assert new == (slow if pace_s == 300 else dict.fromkeys(slow, "STOP") | {2_100: "WARN"})


def test_a_new_partition_without_records_changes_no_status(tmp_path: Path) -> None:
    def step(cluster: Cluster, t: int) -> None:
        expand(cluster, t, records=0)
        if t == 0:
            cluster.members(GROUP, (GROUP, 2))
        for partition in range(2):
            cluster.commit(GROUP, cluster.produce(GROUP, 0, partition), partition)

    rows = looks(tmp_path, step, 1_200)
    assert {group["status"] for group, _ in rows.values()} == {"OK"}
    assert {group["reason"] for group, _ in rows.values()} == {"caught up"}
    assert [row["lag"] for row in rows[1_200][1]] == [0] * 4


def test_members_that_subscribe_to_a_topic_read_its_new_partitions(tmp_path: Path) -> None:
    """They learn of them after four minutes, and commit where they began then."""

    def step(cluster: Cluster, t: int) -> None:
        expand(cluster, t)
        if t == 0:
            cluster.members(GROUP, (GROUP, 2))
        elif t == _EXPANDED_AT_S + 240:
            cluster.members(GROUP, (GROUP, 4), generation=2)
        for partition in range(2 if t <= _EXPANDED_AT_S + 240 else 4):
            cluster.commit(GROUP, cluster.produce(GROUP, 0, partition), partition)

    rows = looks(tmp_path, step, 1_200)
    warned = [t for t, (group, _) in rows.items() if group["status"] == "WARN"]
    assert warned == list(range(_EXPANDED_AT_S, _EXPANDED_AT_S + 241, 60))
    assert {group["status"] for group, _ in rows.values()} == {"OK", "WARN"}
    group, partitions = rows[_EXPANDED_AT_S + 180]
    assert [row["lag"] for row in partitions] == [0, 0, 1_850, 1_850]
    assert group["reason"].startswith(
        "g:2: no committed offset, and no member has the partition: a start with "
        "auto.offset.reset=latest skips its records; 1,850 behind, oldest at least 3 min; the "
        "group: 3,700 behind"
    )


def test_a_client_without_subscription_reads_what_it_has_committed(tmp_path: Path) -> None:
    """`assign()`: the group has no protocol type."""

    def step(cluster: Cluster, t: int) -> None:
        expand(cluster, t)
        if t == 0:
            cluster.no_members(GROUP, 0)
        cluster.commit(GROUP, cluster.produce(GROUP, 0))

    rows = looks(tmp_path, step, 900)
    assert [row["partition"] for row in rows[900][1]] == [0]
    assert rows[900][0]["status"] == "OK"


def test_a_group_that_reads_a_small_part_of_a_topic_has_no_other_rows(tmp_path: Path) -> None:
    """Another client has the others; the member of this group commits one of its two."""

    def step(cluster: Cluster, t: int) -> None:
        for partition in range(12 if t < _EXPANDED_AT_S else 13):
            cluster.produce(GROUP, 50, partition)
        if t == 0:
            cluster.assign(GROUP, {member_id_of("app-0", 0): {GROUP: [0, 1]}}, 1)
        cluster.commit(GROUP, cluster.produce(GROUP, 0))

    rows = looks(tmp_path, step, 900)
    assert [row["partition"] for row in rows[900][1]] == [0, 1]


def test_the_records_count_that_arrived_since_the_members_were_there(tmp_path: Path) -> None:
    """Old records do not count, and a rebalance does not begin the count anew."""

    def step(cluster: Cluster, t: int) -> None:
        cluster.produce(GROUP, 10_000 if t == 0 else 50)
        if t == 0:
            cluster.no_members(GROUP)
        elif t == 300:
            cluster.members(GROUP, generation=2)
        elif t == 1_000:
            owned = {GROUP: [0]}
            cluster.assign(GROUP, {member_id_of("app-1", 1): owned, member_id_of("a", 2): {}}, 3)

    rows = looks(tmp_path, step, 1_800)
    assert {rows[t][0]["status"] for t in (60, 240)} == {"IDLE"}
    for t in (600, 1_200, 1_800):
        group, (partition,) = rows[t]
        assert (group["status"], group["lag"]) == ("STOP" if t > 600 else "WARN", 10 * (t - 300))
        assert partition["is_lag_lower_bound"]
        assert partition["uncommitted_since"] == moment(300)
    assert rows[1_800][0]["reason"] == (
        "no committed offset for 25 min, although a member has the partition; at least 15,000 "
        "behind, oldest 25 min, +10/s"
    )
    assert explanation(rows[1_800][0]) == (
        "no_committed_offset: no committed offset of g:0 since 12:05:00 UTC: at least 15,000 behind"
    )


@pytest.mark.parametrize("has_old_records", [False, True])
def test_a_group_that_reads_from_the_end_and_has_nothing_new_has_no_lag(
    tmp_path: Path, *, has_old_records: bool
) -> None:
    """The client commits a partition only after it has read from it."""

    def step(cluster: Cluster, t: int) -> None:
        cluster.produce(GROUP, 1_000 if t == 0 and has_old_records else 0, 1)
        end = cluster.produce(GROUP, 50)
        if t == 0:
            cluster.no_members(GROUP)
        elif t == 300:
            cluster.members(GROUP, (GROUP, 2), generation=2)
        if t >= 300:
            cluster.commit(GROUP, end)

    rows = looks(tmp_path, step, 1_200)
    group, partitions = rows[1_200]
    assert (group["status"], group["lag"], group["reason"]) == ("OK", 0, "caught up")
    assert [row["lag"] for row in partitions] == [0, 0]
    assert partitions[1]["reason"] == "no commit yet, and no new records"


def test_a_deleted_offset_is_counted_from_its_deletion(tmp_path: Path) -> None:
    def step(cluster: Cluster, t: int) -> None:
        end = cluster.produce(GROUP, 50)
        if t == 0:
            cluster.members(GROUP)
        if t < 300:
            cluster.commit(GROUP, end)
        elif t == 300:
            cluster.commit(GROUP, None)

    group, (partition,) = looks(tmp_path, step, 1_200)[1_200]
    assert (group["lag"], partition["uncommitted_since"]) == (50 * (900 // STEP_S), moment(300))


def test_a_transaction_that_holds_the_first_commits_is_the_cause(tmp_path: Path) -> None:
    def step(cluster: Cluster, t: int) -> None:
        cluster.produce(GROUP, 50)
        if t == 0:
            cluster.members(GROUP)
        elif t == 60:
            cluster.commit(GROUP, 100, producer_id=7)

    group, (partition,) = looks(tmp_path, step, 600)[600]
    assert (group["status"], partition["pending_offset"]) == ("PENDING", 100)
    assert group["reason"].startswith("commits held for 9 min by an open transaction of producer 7")


# --- topics that were deleted and created again

_GONE_AT_S, _AGAIN_AT_S = 600, 660


def recreate(cluster: Cluster, t: int, *, deletes_offsets: bool) -> int:
    """A group that keeps up, until its topic is deleted and created again; gives the log end."""
    log = cluster.logs[GROUP, 0]
    if t == 0:
        cluster.members(GROUP)
    if t == _GONE_AT_S:
        log.state = "gone"
        if deletes_offsets:
            cluster.commit(GROUP, None)
    elif t == _AGAIN_AT_S:
        log.state, log.topic_id, log.end = "present", "T2", 0
    end = cluster.produce(GROUP, 50)
    if t < _GONE_AT_S:
        cluster.commit(GROUP, end)
    return end


AGAIN = "the topic was deleted and created again at 12:11:00 UTC"


def test_an_offset_of_a_deleted_topic_is_no_position_in_the_new_one(tmp_path: Path) -> None:
    """The members never commit again."""

    def step(cluster: Cluster, t: int) -> None:
        recreate(cluster, t, deletes_offsets=False)

    rows = looks(tmp_path, step, 2_400)
    assert {rows[t][0]["status"] for t in range(60, 600, 60)} == {"OK"}
    group, (partition,) = rows[630 + 30 + 60]
    assert partition["recreated_at"] == partition["uncommitted_since"] == moment(_AGAIN_AT_S)
    assert (partition["committed_offset"], partition["lag"]) == (6_000, 50 * 13)
    assert (group["status"], group["reason"]) == (
        "OUT_OF_RANGE",
        f"{AGAIN}; committed offset 6,000 is of the deleted topic, but the log ends at 650: a "
        "consumer that starts there resets it (auto.offset.reset)",
    )
    assert explanation(group) == (
        f"topic_recreated: {AGAIN.replace('the topic', 'topic g')}; committed offset 6,000 of g:0 "
        "is of the deleted topic, log end 650"
    )
    group, (partition,) = rows[2_400]
    assert (partition["committed_offset"], partition["lag"]) == (6_000, 50 * (1_740 // 5 + 1))
    assert (group["status"], group["reason"]) == (
        "STOP",
        f"{AGAIN}; committed offset 6,000 is of the deleted topic, although a member has the "
        "partition: a consumer that starts there skips the records before it; 17,450 behind, "
        "oldest at least 29 min, +10/s",
    )


def test_members_that_do_not_commit_in_a_recreated_topic(tmp_path: Path) -> None:
    """The broker deletes the offsets of the deleted topic."""

    def step(cluster: Cluster, t: int) -> None:
        recreate(cluster, t, deletes_offsets=True)

    rows = looks(tmp_path, step, 1_200)
    assert rows[_GONE_AT_S + 0][0]["status"] == "TOPIC_GONE"
    group, (partition,) = rows[1_200]
    assert partition["recreated_at"] == partition["uncommitted_since"] == moment(_AGAIN_AT_S)
    assert (partition["committed_offset"], partition["lag"]) == (None, 50 * (540 // 5 + 1))
    assert group["status"] == "STOP"
    assert group["reason"].startswith(f"{AGAIN}; no committed offset since, although a member has")
    assert explanation(group) == (
        f"topic_recreated: {AGAIN.replace('the topic', 'topic g')}; no committed offset since"
    )


@pytest.mark.parametrize("deletes_offsets", [False, True])
def test_a_group_that_goes_on_in_a_recreated_topic_is_ok(
    tmp_path: Path, *, deletes_offsets: bool
) -> None:
    """It commits a minute later, below its offset of the deleted topic: that is no rewind."""

    def step(cluster: Cluster, t: int) -> None:
        end = recreate(cluster, t, deletes_offsets=deletes_offsets)
        if t > _AGAIN_AT_S + 60:
            cluster.commit(GROUP, end - 50)

    rows = looks(tmp_path, step, 1_800)
    for t in range(_AGAIN_AT_S + 120, 1_801, 60):
        group, (partition,) = rows[t]
        assert (group["status"], group["lag"]) == ("OK", 50), (t, group["reason"])
        # The tombstone is an event like another.
        causes = {"caught_up", "status", *(["offset_deleted"] if deletes_offsets else [])}
        assert explanation(group).partition(":")[0] in causes
        assert partition["recreated_at"] is None
        assert partition["uncommitted_since"] is None


@pytest.mark.parametrize(
    ("offset", "recreated_at", "status"),
    [(40, None, "UNKNOWN"), (60, moment(_AGAIN_AT_S), "STOP")],
    ids=["in the new log", "past its first end"],
)
def test_a_commit_in_a_recreated_topic_before_its_first_sample(
    tmp_path: Path, offset: int, recreated_at: datetime | None, status: str
) -> None:
    """The topic is created, and the group commits, shortly before the first sample."""

    def step(cluster: Cluster, t: int) -> None:
        recreate(cluster, t, deletes_offsets=False)
        if t == _AGAIN_AT_S - STEP_S:
            cluster.commit(GROUP, offset)

    group, (partition,) = looks(tmp_path, step, 1_200)[1_200]
    assert (group["status"], partition["recreated_at"]) == (status, recreated_at)
    assert partition["lag"] == 50 * (540 // 5 + 1) - (offset if recreated_at is None else 0)


def test_members_of_a_deleted_topic_have_a_row(tmp_path: Path) -> None:
    def step(cluster: Cluster, t: int) -> None:
        cluster.produce(GROUP, 50)
        if t == 0:
            cluster.members(GROUP)
        elif t == 300:
            cluster.logs[GROUP, 0].state = "gone"

    group, (partition,) = looks(tmp_path, step, 360)[360]
    assert (group["status"], partition["lag"], partition["topic_state"]) == (
        *("TOPIC_GONE", None),
        "gone",
    )
    assert partition["gone_since"] == moment(300)
    assert group["reason"] == ("the topic was deleted by 12:05:00 UTC; a member has it assigned")


def test_the_time_of_a_deletion_is_known_for_days_and_after_a_gap(tmp_path: Path) -> None:
    """`run` is stopped when the topic is deleted, and evaluates much later."""

    def step(cluster: Cluster, t: int) -> None:
        end = cluster.produce(GROUP, 50)
        if t == 0:
            cluster.members(GROUP)
        cluster.is_run_up = not 120 <= t < 240
        if t < 120:
            cluster.commit(GROUP, end)
        elif t == 180:
            cluster.logs[GROUP, 0].state = "gone"

    group, (partition,) = looks(tmp_path, step, 3_600, every_s=1_200)[3_600]
    assert (group["status"], partition["gone_since"]) == ("TOPIC_GONE", moment(240))
    assert (
        group["reason"] == "the topic was deleted by 12:04:00 UTC; committed offset 1,200 remains"
    )
    assert explanation(group).startswith("topic_deleted: topic g was deleted by 12:04:00 UTC; ")


def test_samples_of_the_past_show_that_a_partition_was_empty(tmp_path: Path) -> None:
    """`run` asks for the log ends of days when it sees a partition first: none had a record."""
    tables = create_tables(tmp_path)
    apply_micro_batch(
        tables,
        progress=[{"updated_at": NOW}],
        groups=[{"group_id": "g", "state": "Empty", "protocol_type": "consumer"}],
        group_offsets=[offset("g", 100, 300)],
    )
    ends = {0: ((600, 100), (300, 100), (0, 100)), 1: ((500_000, 0), (120, 0), (60, 10), (0, 40))}
    samples = [
        sample(at(ago), end, partition=partition)
        for partition, partition_ends in ends.items()
        for ago, end in partition_ends
    ]
    write_rows(tables, "log_offsets", [*samples, sample(at(0), 0, OFFSETS_TOPIC)])
    row = Evaluation.of(TableReader(tables), at=NOW).group_lag().to_pylist()[1]
    assert (row["partition"], row["lag"], row["is_lag_lower_bound"]) == (1, 40, False)
    assert (row["status"], row["uncommitted_since"]) == ("WARN", at(120))


def test_alert_rules_count_unread_records_and_say_at_least(tmp_path: Path) -> None:
    """A partition without a commit has no age of its last commit, so that is not unknown."""
    cluster = Cluster()
    for t in range(0, 601, STEP_S):
        if t == 0:
            cluster.no_members(GROUP)
        elif t == 300:
            cluster.members(GROUP, (GROUP, 2), generation=2)
        if t >= 300:
            cluster.commit(GROUP, cluster.produce(GROUP, 0))
        cluster.produce(GROUP, 50, 1)
        cluster.step()
    reader = cluster.snapshots(create_tables(tmp_path)).reader(moment(600))
    assert reader is not None
    evaluation = Evaluation.of(reader, at=moment(600))
    rules = rules_without_sinks(
        'rules:\n- {name: behind, lag: "> 2000"}\n- {name: old, commit_age: "> 1m"}\n'
    )
    findings = [list(condition_findings(rule, evaluation)) for rule in rules.rules]
    assert [[finding.reason for finding in each] for each in findings] == [
        ["lag is at least 3000 (> 2000)"],
        [],
    ]
