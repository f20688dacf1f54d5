"""Partitions that a group reads without a committed offset, and their unread records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from coordinator_state.insight.explanation import explain
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
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

Step = Callable[[Cluster, str, int], None]
Row = dict[str, Any]
LOOK_S: Final = 60
ENDS_AT_S: Final = 3_000
RUN_IS_DOWN: Final = range(1_860, 1_980)


def _nothing(_cluster: Cluster, _group: str, _t: int) -> None:
    pass


@dataclass(frozen=True)
class Life:
    """What happens to a group and to the topic of its name.

    Attributes:
        sizes: the number of partitions from a second on. Each gets 50 records a step.
        assigned: how many partitions the only member has from a second on; 0 without a member.
        commits: the partitions whose log ends are committed in a step.
        also: what else happens in a step.
    """

    sizes: Mapping[int, int] = field(default_factory=lambda: {0: 1})
    assigned: Mapping[int, int] = field(default_factory=lambda: {0: 1})
    commits: Callable[[int], Collection[int]] = lambda _t: ()
    also: Step = _nothing

    def step(self, cluster: Cluster, group: str, t: int) -> None:
        for partition in range(max(size for since, size in self.sizes.items() if since <= t)):
            cluster.produce(group, 50, partition)
        generation = 1 + sum(since < t for since in self.assigned)
        if count := self.assigned.get(t):
            cluster.members(group, (group, count), generation=generation)
        elif count == 0:
            cluster.no_members(group, generation)
        for partition in self.commits(t):
            cluster.commit(group, cluster.logs[group, partition].end, partition)
        self.also(cluster, group, t)


def first_two(until_s: int = ENDS_AT_S, pace_s: int = STEP_S) -> Callable[[int], Collection[int]]:
    return lambda t: range(2) if t < until_s and t % pace_s == 0 else ()


def learns(t: int) -> Collection[int]:
    return range(2 if t <= 840 else 4)


def from_300(t: int) -> Collection[int]:
    return [0] if t >= 300 else []


def leader_is_away(cluster: Cluster, group: str, t: int) -> None:
    log = cluster.logs[group, 2]
    log.end, log.state = 1_000_000, "unavailable" if t < 120 else "present"


def rests_at(end: int) -> Step:
    """No record is produced to partition 1."""

    def step(cluster: Cluster, group: str, _t: int) -> None:
        cluster.logs[group, 1].end = end

    return step


def chooses_partitions(cluster: Cluster, group: str, t: int) -> None:
    """`assign()`: the group has no protocol type."""
    if t == 0:
        cluster.no_members(group, 0)


def has_old_records_and_rebalances(cluster: Cluster, group: str, t: int) -> None:
    if t == 0:
        cluster.produce(group, 10_000)
    elif t == 1_000:
        members = {member_id_of("app-1", 1): {group: [0]}, member_id_of("a", 2): {}}
        cluster.assign(group, members, 3)


def deletes_its_offset(cluster: Cluster, group: str, t: int) -> None:
    if t == 300:
        cluster.commit(group, None)


def holds_its_first_commit(cluster: Cluster, group: str, t: int) -> None:
    if t == 60:
        cluster.commit(group, 100, producer_id=7)


def topic_is_deleted(at_s: int) -> Step:
    def step(cluster: Cluster, group: str, t: int) -> None:
        if t == at_s:
            cluster.logs[group, 0].state = "gone"

    return step


GONE_AT_S: Final = 600
AGAIN_AT_S: Final = 660
AGAIN: Final = "the topic was deleted and created again at 12:11:00 UTC"


def recreated(
    *, deletes_offsets: bool = False, goes_on: bool = False, early: int | None = None
) -> Life:
    """A group that keeps up, until its topic is deleted and created again.

    It goes on a minute later, or commits an offset before the first sample of the new log.
    """

    def step(cluster: Cluster, group: str, t: int) -> None:
        log = cluster.logs[group, 0]
        if t == GONE_AT_S:
            log.state = "gone"
            if deletes_offsets:
                cluster.commit(group, None)
        elif t == AGAIN_AT_S - STEP_S and early is not None:
            cluster.commit(group, early)
        elif t == AGAIN_AT_S:
            log.state, log.topic_id, log.end = "present", "T2", 50
        elif goes_on and t > AGAIN_AT_S + 60:
            cluster.commit(group, log.end - 50)

    return Life(commits=lambda t: [0] if t < GONE_AT_S else [], also=step)


EXPANDED: Final = {0: 2, 600: 4}
LIVES: Final = {
    "expanded while empty": Life(EXPANDED, {0: 2, 300: 0}, first_two(until_s=300)),
    "leader was away": Life({0: 3}, {0: 3}, first_two(), leader_is_away),
    "expanded, fast": Life({0: 2, 1_800: 3}, {0: 2, 1_800: 3}, first_two()),
    "expanded, slow": Life({0: 2, 1_800: 3}, {0: 2, 1_800: 3}, first_two(pace_s=300)),
    "expanded": Life(EXPANDED, {0: 2, 840: 4}, learns),
    "without subscription": Life(EXPANDED, {}, lambda _t: [0], chooses_partitions),
    "reads a small part": Life({0: 12, 600: 13}, {0: 2}, lambda _t: [0]),
    "never commits": Life(assigned={0: 0, 300: 1}, also=has_old_records_and_rebalances),
    "begins": Life({0: 2}, {0: 0, 300: 2}, from_300),
    "nothing new": Life({0: 1}, {0: 0, 300: 2}, from_300, rests_at(0)),
    "nothing new after old records": Life({0: 1}, {0: 0, 300: 2}, from_300, rests_at(1_000)),
    "offset deleted": Life(commits=lambda t: [0] if t < 300 else [], also=deletes_its_offset),
    "first commit held": Life(also=holds_its_first_commit),
    "recreated": recreated(),
    "recreated without offsets": recreated(deletes_offsets=True),
    "goes on": recreated(goes_on=True),
    "goes on without offsets": recreated(goes_on=True, deletes_offsets=True),
    "commits early": recreated(early=40),
    "commits early past the end": recreated(early=60),
    "topic deleted": Life(also=topic_is_deleted(300)),
    "topic deleted in a gap": Life(
        commits=lambda t: [0] if t < RUN_IS_DOWN.start else [], also=topic_is_deleted(1_920)
    ),
}


class Look(NamedTuple):
    """The rows of a group and its partitions at a moment, with their reader and evaluation."""

    group: Row
    partitions: list[Row]
    reader: TableReader | None
    evaluation: Evaluation

    @property
    def explanation(self) -> str:
        """The first evidence for the status."""
        assert self.reader is not None
        facts = group_facts(self.reader, self.group["group_id"], at=self.evaluation.at)
        assert facts is not None
        first = explain(facts).evidence[0]
        return f"{first.cause.value}: {first.text}"


Looks = Mapping[str, Mapping[int, Look]]


@pytest.fixture(scope="module")
def looks(tmp_path_factory: pytest.TempPathFactory) -> Looks:
    """The looks at each group, by second.

    Whoever evaluates again and again has the same rows as who evaluates once.
    """
    cluster, known = Cluster(), KnownPaces()
    for t in range(0, ENDS_AT_S + 1, STEP_S):
        for name, life in LIVES.items():
            life.step(cluster, name, t)
        cluster.is_run_up = t not in RUN_IS_DOWN
        cluster.step(LOOK_S)
    snapshots = cluster.snapshots(create_tables(tmp_path_factory.mktemp("tables")))
    looks: dict[str, dict[int, Look]] = {name: {} for name in LIVES}
    for t in (*range(LOOK_S, 1_801, LOOK_S), *range(2_100, ENDS_AT_S + 1, 300)):
        evaluation, reader = snapshots.evaluation(t, known), snapshots.reader(moment(t))
        lags = evaluation.group_lag()
        if t % 600 == 0:
            assert lags == snapshots.evaluation(t).group_lag()
        for group in evaluation.statuses.to_pylist():
            name = group["group_id"]
            partitions = [row for row in lags.to_pylist() if row["group_id"] == name]
            looks[name][t] = Look(group, partitions, reader, evaluation)
    return looks


def test_all_records_of_a_partition_are_unread_that_is_created_while_the_group_is_empty(
    looks: Looks,
) -> None:
    rows = looks["expanded while empty"]
    assert len(rows[540].partitions) == 2
    group, partitions, *_ = rows[720]
    assert [row["committed_offset"] for row in partitions] == [3_000, 3_000, None, None]
    # Another 50 records in each step, and those of the moment itself.
    unread = 50 * (120 // STEP_S + 1)
    assert [row["lag"] for row in partitions] == [4_250, 4_250, unread, unread]
    assert (group["lag"], group["is_lag_lower_bound"]) == (8_500 + 2 * unread, False)
    new = partitions[2]
    assert (new["status"], new["member_id"], new["commit_timestamp"]) == ("WARN", None, None)
    assert new["uncommitted_since"] == moment(600)
    assert new["reason"] == (
        "no committed offset, and the group has no members: a start with "
        "auto.offset.reset=latest skips its records; 1,250 behind, oldest at least 2 min"
    )
    assert rows[1_200].partitions[2]["lag"] == 50 * (600 // STEP_S + 1)


def test_a_partition_whose_leader_was_away_at_first_is_not_new(looks: Looks) -> None:
    """It has a million old records, which a consumer that reads from `latest` does not want."""
    rows = looks["leader was away"]
    assert {look.group["status"] for t, look in rows.items() if 120 < t <= 900} == {"OK"}


def test_a_new_partition_may_wait_as_long_as_those_of_its_group(looks: Looks) -> None:
    """A sink that commits every five minutes commits a new partition as rarely."""
    statuses = {
        name: [looks[name][t].partitions[2]["status"] for t in (2_100, 2_400, 2_700, 3_000)]
        for name in ("expanded, fast", "expanded, slow")
    }
    assert statuses == {
        "expanded, fast": ["WARN", "STOP", "STOP", "STOP"],
        "expanded, slow": ["OK", "OK", "OK", "STOP"],
    }


def test_members_that_subscribe_to_a_topic_read_its_new_partitions(looks: Looks) -> None:
    """They learn of them after four minutes, and commit where they began then."""
    rows = looks["expanded"]
    warned = [t for t, look in rows.items() if look.group["status"] == "WARN"]
    assert warned == [600, 660, 720, 780, 840]
    assert {look.group["status"] for look in rows.values()} == {"OK", "WARN"}
    group, partitions, *_ = rows[780]
    assert [row["lag"] for row in partitions] == [0, 0, 1_850, 1_850]
    assert group["reason"].startswith(
        "expanded:2: no committed offset, and no member has the partition: a start with "
        "auto.offset.reset=latest skips its records; 1,850 behind, oldest at least 3 min; the "
        "group: 3,700 behind"
    )


def test_a_group_has_no_rows_of_partitions_that_it_does_not_read(looks: Looks) -> None:
    """A client without subscription, and one of several clients of a large topic."""
    look = looks["without subscription"][900]
    assert [row["partition"] for row in look.partitions] == [0]
    assert look.group["status"] == "OK"
    small_part = looks["reads a small part"][900].partitions
    assert [row["partition"] for row in small_part] == [0, 1]


def test_the_records_count_that_arrived_since_the_members_were_there(looks: Looks) -> None:
    """Old records do not count, and a rebalance does not begin the count anew."""
    rows = looks["never commits"]
    assert {rows[t].group["status"] for t in (60, 240)} == {"IDLE"}
    for t in (600, 1_200, 1_800):
        group, (partition,), *_ = rows[t]
        assert (group["status"], group["lag"]) == ("STOP" if t > 600 else "WARN", 10 * (t - 300))
        assert partition["is_lag_lower_bound"]
        assert partition["uncommitted_since"] == moment(300)
    assert rows[1_800].group["reason"] == (
        "no committed offset for 25 min, although a member has the partition; at least 15,000 "
        "behind, oldest 25 min, +10/s"
    )
    assert rows[1_800].explanation == (
        "no_committed_offset: no committed offset of never commits:0 since 12:05:00 UTC: at least "
        "15,000 behind"
    )


@pytest.mark.parametrize("name", ["nothing new", "nothing new after old records"])
def test_a_group_that_reads_from_the_end_and_has_nothing_new_has_no_lag(
    looks: Looks, name: str
) -> None:
    """The client commits a partition only after it has read from it."""
    group, partitions, *_ = looks[name][1_200]
    assert (group["status"], group["lag"], group["reason"]) == ("OK", 0, "caught up")
    assert [row["lag"] for row in partitions] == [0, 0]
    assert partitions[1]["reason"] == "no commit yet, and no new records"


def test_a_deleted_offset_is_counted_from_its_deletion(looks: Looks) -> None:
    group, (partition,), *_ = looks["offset deleted"][1_200]
    assert (group["lag"], partition["uncommitted_since"]) == (50 * (900 // STEP_S), moment(300))


def test_a_transaction_that_holds_the_first_commits_is_the_cause(looks: Looks) -> None:
    group, (partition,), *_ = looks["first commit held"][600]
    assert (group["status"], partition["pending_offset"]) == ("PENDING", 100)
    assert group["reason"].startswith("commits held for 9 min by an open transaction of producer 7")


def test_alert_rules_count_unread_records_and_say_at_least(looks: Looks) -> None:
    """A partition without a commit has no age of its last commit, so that is not unknown."""
    rules = rules_without_sinks(
        'rules:\n- {name: behind, groups: begins, lag: "> 2000"}\n'
        '- {name: old, groups: begins, commit_age: "> 1m"}\n'
    )
    evaluation = looks["begins"][600].evaluation
    findings = [list(condition_findings(rule, evaluation)) for rule in rules.rules]
    assert [[finding.reason for finding in each] for each in findings] == [
        ["lag is at least 3000 (> 2000)"],
        [],
    ]


# --- topics that were deleted and created again


def test_an_offset_of_a_deleted_topic_is_no_position_in_the_new_one(looks: Looks) -> None:
    """The members never commit again."""
    rows = looks["recreated"]
    assert {rows[t].group["status"] for t in range(60, 600, 60)} == {"OK"}
    group, (partition,), *_ = rows[720]
    assert partition["recreated_at"] == partition["uncommitted_since"] == moment(AGAIN_AT_S)
    assert (partition["committed_offset"], partition["lag"]) == (6_000, 50 * 13)
    assert (group["status"], group["reason"]) == (
        "OUT_OF_RANGE",
        f"{AGAIN}; committed offset 6,000 is of the deleted topic, but the log ends at 650: a "
        "consumer that starts there resets it (auto.offset.reset)",
    )
    assert rows[720].explanation == (
        f"topic_recreated: {AGAIN.replace('the topic', 'topic recreated')}; committed offset "
        "6,000 of recreated:0 is of the deleted topic, log end 650"
    )
    group, (partition,), *_ = rows[2_400]
    assert (partition["committed_offset"], partition["lag"]) == (6_000, 50 * (1_740 // 5 + 1))
    assert (group["status"], group["reason"]) == (
        "STOP",
        f"{AGAIN}; committed offset 6,000 is of the deleted topic, although a member has the "
        "partition: a consumer that starts there skips the records before it; 17,450 behind, "
        "oldest at least 29 min, +10/s",
    )


def test_members_that_do_not_commit_in_a_recreated_topic(looks: Looks) -> None:
    """The broker deletes the offsets of the deleted topic."""
    rows = looks["recreated without offsets"]
    assert rows[GONE_AT_S].group["status"] == "TOPIC_GONE"
    group, (partition,), *_ = rows[1_200]
    assert partition["recreated_at"] == partition["uncommitted_since"] == moment(AGAIN_AT_S)
    assert (partition["committed_offset"], partition["lag"]) == (None, 50 * (540 // 5 + 1))
    assert group["status"] == "STOP"
    assert group["reason"].startswith(f"{AGAIN}; no committed offset since, although a member has")
    assert rows[1_200].explanation.endswith("; no committed offset since")


@pytest.mark.parametrize("name", ["goes on", "goes on without offsets"])
def test_a_group_that_goes_on_in_a_recreated_topic_is_ok(looks: Looks, name: str) -> None:
    """It commits a minute later, below its offset of the deleted topic: that is no rewind."""
    for t in range(AGAIN_AT_S + 120, 1_801, 60):
        group, (partition,), *_ = looks[name][t]
        assert (group["status"], group["lag"]) == ("OK", 50), (t, group["reason"])
        assert (partition["recreated_at"], partition["uncommitted_since"]) == (None, None)
    # The tombstone is an event like another.
    causes = {"caught_up", "status", *(["offset_deleted"] if "without" in name else [])}
    for t in (AGAIN_AT_S + 120, 1_800):
        assert looks[name][t].explanation.partition(":")[0] in causes


@pytest.mark.parametrize(
    ("name", "unread", "recreated_at", "status"),
    [
        ("commits early", 50 * 109 - 40, None, "UNKNOWN"),
        ("commits early past the end", 50 * 109, moment(AGAIN_AT_S), "STOP"),
    ],
)
def test_a_commit_in_a_recreated_topic_before_its_first_sample(
    looks: Looks, name: str, unread: int, recreated_at: datetime | None, status: str
) -> None:
    """The topic is created, and the group commits, shortly before the first sample."""
    group, (partition,), *_ = looks[name][1_200]
    assert (group["status"], partition["recreated_at"]) == (status, recreated_at)
    assert partition["lag"] == unread


def test_members_of_a_deleted_topic_have_a_row(looks: Looks) -> None:
    group, (partition,), *_ = looks["topic deleted"][360]
    assert group["status"] == "TOPIC_GONE"
    assert group["reason"] == "the topic was deleted by 12:05:00 UTC; a member has it assigned"
    assert (partition["lag"], partition["gone_since"]) == (None, moment(300))


def test_the_time_of_a_deletion_is_known_after_a_gap(looks: Looks) -> None:
    """`run` is stopped when the topic is deleted, and evaluates later."""
    look = looks["topic deleted in a gap"][ENDS_AT_S]
    assert look.partitions[0]["gone_since"] == moment(RUN_IS_DOWN.stop)
    assert look.group["reason"] == (
        "the topic was deleted by 12:33:00 UTC; committed offset 18,600 remains"
    )
    assert look.explanation.startswith("topic_deleted: topic topic deleted in a gap was deleted by")


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
