"""The status of a group during an incident, by our rules and by Burrow's, and how soon.

Each group is well for ten minutes, then something happens to it, step by step. A step is five
seconds. Producers write 100 records a second to each partition. docs/status.md has the result.
`UPDATE_DOCS=1` rewrites it there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from textwrap import fill
from typing import Final, NamedTuple

import pyarrow as pa
import pytest

from streaming.lag.burrow_status import burrow_group_statuses
from streaming.lag.evaluation import Evaluation
from streaming.tables.reader import TableReader
from tests.support.tables.incident_tables import STEP_S, Cluster, Snapshots, moment
from tests.support.tables.tables_folder import create_tables

WELL_S: Final = 600
_RECORDS: Final = 100 * STEP_S
_UNREAD: Final = 20
_SESSION_TIMEOUT_S: Final = 45

Step = Callable[[Cluster, str, int, int], None]


class Incident(NamedTuple):
    """What happens, in words for docs/status.md, and a step of it, after records were produced.

    A step has the cluster, the group, the seconds, and the log end of partition 0.
    """

    text: str
    step: Step
    partitions: int = 1
    """Those of the only member; 0 without a member at first."""
    records: Callable[[int], int] = lambda _t: _RECORDS

    @property
    def group_id(self) -> str:
        return self.step.__name__.replace("_", "-")

    def happen(self, cluster: Cluster, t: int) -> None:
        if t == -WELL_S and self.partitions:
            cluster.members(self.group_id, (self.group_id, self.partitions))
        self.step(cluster, self.group_id, t, cluster.produce(self.group_id, self.records(t)))


def aborts(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    cluster.commit(group_id, end - _UNREAD, producer_id=1)
    cluster.end_transaction(1, aborts=t > 0)


def held(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    if t <= STEP_S:
        cluster.commit(group_id, end - _UNREAD, producer_id=2)
    if t <= 0:
        cluster.end_transaction(2)


def held_again(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    """The application goes on to commit in the transaction."""
    cluster.commit(group_id, end - _UNREAD, producer_id=3)
    if t <= 0:
        cluster.end_transaction(3)


def behind_a_transaction(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    log = cluster.logs[group_id, 0]
    if t == STEP_S:
        log.open_at = end - _RECORDS
    cluster.commit(group_id, end if log.open_at is None else log.open_at)


def repeats(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    cluster.commit(group_id, end - _UNREAD - max(t, 0) * 100)


def one_stuck(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    cluster.commit(group_id, end - _UNREAD)
    for partition in range(1, 12):
        end = cluster.produce(group_id, _RECORDS, partition)
        unread = max(t, 0) * 100 if partition == 3 else 0
        cluster.commit(group_id, end - _UNREAD - unread, partition)


def paused(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    """The clients of librdkafka commit a partition only after they read from it."""
    other = f"{group_id}-b"
    if t == -WELL_S:
        cluster.members(group_id, (group_id, 1), (other, 1))
    cluster.commit(group_id, end - _UNREAD)
    end = cluster.produce(other, _RECORDS)
    if t <= 0:
        cluster.commit(group_id, end - _UNREAD, topic=other)


def killed(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    if t <= 0:
        cluster.commit(group_id, end - _UNREAD)
    if t == _SESSION_TIMEOUT_S:
        cluster.no_members(group_id, 2)


def never_commits(cluster: Cluster, group_id: str, t: int, _end: int) -> None:
    if t == STEP_S:
        cluster.members(group_id)


def slow(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    cluster.commit(group_id, end - _UNREAD - max(t, 0) * 50)


def reset(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    if t <= 0:
        cluster.commit(group_id, end - _UNREAD)
    elif t == STEP_S:
        cluster.no_members(group_id, 2)
        cluster.commit(group_id, 0)
    elif t == 2 * STEP_S:
        cluster.members(group_id, generation=3)
    else:
        cluster.commit(group_id, min(t * 200, end - _UNREAD))


def rebalances(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    cluster.commit(group_id, end - _UNREAD)
    if t > 0 and t % 10 == 0:
        cluster.members(group_id, generation=1 + t // 10)


def loses(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    """Records are deleted after five minutes; the group reads a fifth of them."""
    cluster.logs[group_id, 0].start = max(end - 30_000, 0)
    cluster.commit(group_id, end - _UNREAD - max(t, 0) * 80)


def topic_deleted(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    if t <= 0:
        cluster.commit(group_id, end - _UNREAD)
    elif t == STEP_S:
        cluster.logs[group_id, 0].state = "gone"


def shares(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    """The share coordinator goes on to write the delivery state, but the start offset rests."""
    if t == -WELL_S:
        cluster.share_group(group_id)
    cluster.acknowledge(group_id, end - _UNREAD - max(t, 0) // STEP_S * _RECORDS)


def no_production(cluster: Cluster, group_id: str, _t: int, end: int) -> None:
    cluster.commit(group_id, end)


def rolls(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    """A deployment: no member for 30 seconds."""
    if not 0 < t <= 30:
        cluster.commit(group_id, end - _UNREAD)
    elif t == STEP_S:
        cluster.no_members(group_id, 2)
    elif t == 30:
        cluster.members(group_id, generation=3)


def assigns(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    """A consumer with assign() is no member; producers write now and then, after its commit."""
    cluster.commit(group_id, end)
    cluster.produce(group_id, _RECORDS if t % 60 == 0 else 0)


def commits_once(cluster: Cluster, group_id: str, t: int, end: int) -> None:
    """A new group: the second commit comes after two minutes."""
    if t == STEP_S:
        cluster.members(group_id)
    if t > 0 and t % 120 == STEP_S:
        cluster.commit(group_id, end - _UNREAD)


INCIDENTS: Final = (
    Incident("Every transaction of the group is aborted", aborts, partitions=0),
    Incident("An open transaction holds the group's commits", held),
    Incident("The same, and the group keeps committing in it", held_again),
    Incident("A producer leaves a transaction open in the topic", behind_a_transaction),
    Incident("The group commits the same offset again and again", repeats),
    Incident("The same in one partition of twelve", one_stuck, partitions=12),
    Incident("The consumer pauses one of two topics", paused, partitions=0),
    Incident("The consumer is killed", killed),
    Incident("A new member never commits", never_commits, partitions=0),
    Incident("The group reads half of the produced records", slow),
    Incident("The offsets are reset to 0, then the group reads fast", reset),
    Incident("A rebalance every 10 s", rebalances),
    Incident("Records are deleted before the group reads them", loses),
    Incident("The topic is deleted", topic_deleted),
    Incident("A share group releases records for ever", shares, partitions=0),
    Incident(
        "No incident: producers stop",
        no_production,
        records=lambda t: _RECORDS if t <= 0 else 0,
    ),
    Incident("No incident: a deployment takes 30 s", rolls),
    Incident(
        "No incident: a consumer with `assign()`, little traffic",
        assigns,
        partitions=0,
        records=lambda _t: 0,
    ),
    Incident("No incident: a new group commits every 2 min", commits_once, partitions=0),
)


# --- the statuses of each incident, and docs/status.md

Judge = Callable[..., pa.Table]
DOCS = Path(__file__).parents[3] / "docs/status.md"
_BEGIN, _END = "<!-- incidents -->\n", "<!-- end of incidents -->\n"
_LASTS_S = 960
_RESTART = "`run` is stopped for 3 min"
_HEALTHY = {"OK", "IDLE"}


class Change(NamedTuple):
    """A status, since when a group has it, and the reason then."""

    seconds: int
    status: str
    reason: str


Changes = list[Change]


_MOMENTS = (*range(-60, 130, STEP_S), *range(130, 300, 10), *range(300, _LASTS_S + 1, 30))
"""When statuses are looked at."""


def _micro_batch_every_s(seconds: int) -> int:
    """Few micro-batches where no moment is looked at, nor one of the five minutes before it."""
    if -400 <= seconds <= 130:
        return STEP_S
    return 10 if 130 < seconds <= 300 else 30


def changes_of(snapshots: Snapshots, judge: Judge, groups: Sequence[str]) -> dict[str, Changes]:
    """The changes of the status of each group; "not seen" without a row."""
    changes_by_group: dict[str, Changes] = {group: [] for group in groups}
    for seconds in _MOMENTS:
        reader = snapshots.reader(moment(seconds))
        assert reader is not None
        rows = {row["group_id"]: row for row in judge(reader, at=moment(seconds)).to_pylist()}
        for group, changes in changes_by_group.items():
            row = rows.get(group, {"status": "not seen", "reason": ""})
            if not changes or changes[-1].status != row["status"]:
                changes.append(Change(seconds, row["status"], row["reason"]))
    return changes_by_group


def _snapshots(folder: Path, step: Callable[[Cluster, int], None]) -> Snapshots:
    cluster = Cluster(seconds=-WELL_S)
    for t in range(-WELL_S, _LASTS_S + 1, STEP_S):
        step(cluster, t)
        cluster.step(_micro_batch_every_s(t))
    return cluster.snapshots(create_tables(folder))


def incidents_happen(cluster: Cluster, t: int) -> None:
    for incident in INCIDENTS:
        incident.happen(cluster, t)


def run_is_down(cluster: Cluster, t: int) -> None:
    """A healthy group while `run` is down for three minutes."""
    cluster.is_run_up = not 0 < t <= 180
    if t == -WELL_S:
        cluster.members("well")
    cluster.commit("well", cluster.produce("well", _RECORDS) - _UNREAD)


def our_statuses(reader: TableReader, *, at: datetime) -> pa.Table:
    return Evaluation.of(reader, at=at).statuses


@pytest.mark.long
def test_the_table_of_docs_is_true(tmp_path: Path) -> None:
    snapshots = _snapshots(tmp_path / "incidents", incidents_happen)
    restarted = _snapshots(tmp_path / "restarted", run_is_down)
    groups = {incident.text: incident.group_id for incident in INCIDENTS}

    def changes_by_text(judge: Judge) -> dict[str, Changes]:
        changes = changes_of(snapshots, judge, [*groups.values()])
        return {
            **{text: changes[group] for text, group in groups.items()},
            _RESTART: changes_of(restarted, judge, ["well"])["well"],
        }

    table = _table(changes_by_text(our_statuses), changes_by_text(burrow_group_statuses))
    before, _, rest = DOCS.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    expected = f"{before}{_BEGIN}{table}{_END}{after}"
    if os.environ.get("UPDATE_DOCS"):
        DOCS.write_text(expected)
    assert DOCS.read_text() == expected, "run this test with UPDATE_DOCS=1"


def _table(ours: dict[str, Changes], burrows: dict[str, Changes]) -> str:
    lines = ["| incident | status, and after how long | by Burrow's rules |", "|---|---|---|"]
    lines += [f"| {text} | {_cell(ours[text])} | {_cell(burrows[text])} |" for text in ours]
    reasons = [
        fill(f"{change.status}: {change.reason}", 100, subsequent_indent="    ")
        for changes in ours.values()
        for change in _during(changes)
        if change.status not in _HEALTHY
    ]
    return "\n".join(["", *lines, "", "The reasons:", "", "```", *reasons, "```", "", ""])


def _cell(changes: Changes) -> str:
    during = _during(changes)
    texts = [f"`{_burrow_status(change)}` {change.seconds} s" for change in during]
    return ", ".join(texts) or (changes[-1].status if changes[-1].status == "not seen" else "`OK`")


def _burrow_status(change: Change) -> str:
    """The status; for ERR that of the worst partition."""
    return change.reason.partition(":")[0] if change.status == "ERR" else change.status


def _during(changes: Changes) -> Changes:
    """The changes during the incident, and back to OK, not the first OK of a new group."""
    during = [change for change in changes if change.seconds > 0]
    is_healthy = all(change.status in _HEALTHY | {"not seen"} for change in during)
    if is_healthy:
        return [change for change in during if change.status == "IDLE"]
    first = next(
        i for i, change in enumerate(during) if change.status not in _HEALTHY | {"not seen"}
    )
    return during[first:]


# --- a partition stays in trouble until its offset moves, whatever the group commits

STOPS_S = (60, 590, 700)
LEFT_LASTS_S = 1_300
MOVES_AT_S = 1_250
RESUMES = ("again", "once", "elsewhere")
LEFT_GROUPS = [f"{resumes}-{stop}" for resumes in RESUMES for stop in STOPS_S]


def _leaves_a_partition(cluster: Cluster, group_id: str, t: int, left_at: dict[str, int]) -> None:
    """Both partitions stop at 0, and only partition 0 goes on after the stop.

    The group commits the old offset of partition 1 each time, once, or not at all.
    """
    resumes, _, stop = group_id.partition("-")
    if t == -WELL_S:
        cluster.members(group_id, (group_id, 2))
    for partition in (0, 1):
        end = cluster.produce(group_id, _RECORDS, partition)
        if t <= 0 or t >= MOVES_AT_S:
            cluster.commit(group_id, end, partition)
            left_at[group_id] = end
        elif t > int(stop) and partition == 0:
            cluster.commit(group_id, end, partition)
        elif (resumes == "again" and t > int(stop)) or (
            resumes == "once" and t == int(stop) + STEP_S
        ):
            cluster.commit(group_id, left_at[group_id], partition)


def _left_moments() -> Sequence[int]:
    """Each step after a group goes on, and when commits leave the time that is looked at."""
    often = [stop + step for stop in STOPS_S for step in range(0, 65, STEP_S)]
    return sorted({*often, *range(55, MOVES_AT_S, 35), *range(595, 625, STEP_S)})


def test_a_partition_that_stays_behind_keeps_its_group_in_trouble(tmp_path: Path) -> None:
    cluster, left_at = Cluster(seconds=-WELL_S), dict[str, int]()
    runs_at = {*range(-WELL_S, 0, 60), *range(0, LEFT_LASTS_S + 1, 50), *_left_moments()}
    for t in range(-WELL_S, LEFT_LASTS_S + 1, STEP_S):
        cluster.is_run_up = t in runs_at
        for group_id in LEFT_GROUPS:
            _leaves_a_partition(cluster, group_id, t, left_at)
        cluster.step()
    snapshots = cluster.snapshots(create_tables(tmp_path))

    for seconds in _left_moments():
        rows = snapshots.statuses(seconds)
        for group_id in LEFT_GROUPS:
            row = rows[group_id]
            verdict = f"{group_id} at {seconds} s: {row['status']} {row['reason']}"
            assert row["status"] in {"STOP", "STALL"}, verdict
            assert row["partition"] == 1 or seconds <= int(group_id.partition("-")[2]), verdict
    # The group is well when the partition moves.
    statuses = {
        group_id: row["status"] for group_id, row in snapshots.statuses(LEFT_LASTS_S).items()
    }
    assert statuses == dict.fromkeys(LEFT_GROUPS, "OK")
