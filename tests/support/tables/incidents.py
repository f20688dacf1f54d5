"""Incidents, step by step: each group is well for ten minutes, then something happens to it.

A step is five seconds. Producers write 100 records a second to each partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tests.support.tables.incident_tables import STEP_S, Cluster

Step = Callable[[Cluster, str, int], None]


class Incident(NamedTuple):
    """What happens, in words for docs/status.md, and a step of it."""

    text: str
    step: Step

    @property
    def group_id(self) -> str:
        return self.step.__name__.replace("_", "-")


WELL_S: Final = 600
_RECORDS: Final = 100 * STEP_S
_UNREAD: Final = 20
_SESSION_TIMEOUT_S: Final = 45


def aborts(cluster: Cluster, group_id: str, t: int) -> None:
    end = cluster.produce(group_id, _RECORDS)
    cluster.commit(group_id, end - _UNREAD, producer_id=1)
    cluster.end_transaction(1, aborts=t > 0)


def held(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    end = cluster.produce(group_id, _RECORDS)
    if t <= STEP_S:
        cluster.commit(group_id, end - _UNREAD, producer_id=2)
    if t <= 0:
        cluster.end_transaction(2)


def held_again(cluster: Cluster, group_id: str, t: int) -> None:
    """The application goes on to commit in the transaction."""
    _join(cluster, group_id, t)
    end = cluster.produce(group_id, _RECORDS)
    cluster.commit(group_id, end - _UNREAD, producer_id=3)
    if t <= 0:
        cluster.end_transaction(3)


def behind_a_transaction(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    log = cluster.logs[group_id, 0]
    if t == STEP_S:
        log.open_at = log.end
    end = cluster.produce(group_id, _RECORDS)
    cluster.commit(group_id, end if log.open_at is None else log.open_at)


def repeats(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    _reads(cluster, group_id, stops_at=0, t=t)


def one_stuck(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t, partitions=12)
    for partition in range(12):
        _reads(cluster, group_id, partition, t=t, stops_at=0 if partition == 3 else None)


def paused(cluster: Cluster, group_id: str, t: int) -> None:
    """The clients of librdkafka commit a partition only after they read from it."""
    other = f"{group_id}-b"
    if t == -WELL_S:
        cluster.members(group_id, (group_id, 1), (other, 1))
    _reads(cluster, group_id)
    end = cluster.produce(other, _RECORDS)
    if t <= 0:
        cluster.commit(group_id, end - _UNREAD, topic=other)


def killed(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    end = cluster.produce(group_id, _RECORDS)
    if t <= 0:
        cluster.commit(group_id, end - _UNREAD)
    if t == _SESSION_TIMEOUT_S:
        cluster.no_members(group_id, 2)


def never_commits(cluster: Cluster, group_id: str, t: int) -> None:
    cluster.produce(group_id, _RECORDS)
    if t == STEP_S:
        cluster.members(group_id)


def slow(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    end = cluster.produce(group_id, _RECORDS)
    cluster.commit(group_id, end - _UNREAD - max(t, 0) * 50)


def reset(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    end = cluster.produce(group_id, _RECORDS)
    if t <= 0:
        cluster.commit(group_id, end - _UNREAD)
    elif t == STEP_S:
        cluster.no_members(group_id, 2)
        cluster.commit(group_id, 0)
    elif t == 2 * STEP_S:
        cluster.members(group_id, generation=3)
    else:
        cluster.commit(group_id, min(t * 200, end - _UNREAD))


def rebalances(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    _reads(cluster, group_id)
    if t > 0 and t % 10 == 0:
        cluster.members(group_id, generation=1 + t // 10)


def loses(cluster: Cluster, group_id: str, t: int) -> None:
    """Records are deleted after five minutes; the group reads a fifth of them."""
    _join(cluster, group_id, t)
    log = cluster.logs[group_id, 0]
    end = cluster.produce(group_id, _RECORDS)
    log.start = max(end - 30_000, 0)
    cluster.commit(group_id, end - _UNREAD - max(t, 0) * 80)


def topic_deleted(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    if t <= 0:
        _reads(cluster, group_id)
    elif t == STEP_S:
        cluster.logs[group_id, 0].state = "gone"


def shares(cluster: Cluster, group_id: str, t: int) -> None:
    """The share coordinator goes on to write the delivery state, but the start offset rests."""
    end = cluster.produce(group_id, _RECORDS)
    if t == -WELL_S:
        cluster.share_group(group_id)
    cluster.acknowledge(group_id, end - _UNREAD - max(t, 0) // STEP_S * _RECORDS)


def no_production(cluster: Cluster, group_id: str, t: int) -> None:
    _join(cluster, group_id, t)
    end = cluster.produce(group_id, _RECORDS if t <= 0 else 0)
    cluster.commit(group_id, end)


def rolls(cluster: Cluster, group_id: str, t: int) -> None:
    """A deployment: no member for 30 seconds."""
    _join(cluster, group_id, t)
    end = cluster.produce(group_id, _RECORDS)
    if not 0 < t <= 30:
        cluster.commit(group_id, end - _UNREAD)
    elif t == STEP_S:
        cluster.no_members(group_id, 2)
    elif t == 30:
        cluster.members(group_id, generation=3)


def assigns(cluster: Cluster, group_id: str, t: int) -> None:
    """A consumer with assign() is no member; producers write now and then."""
    end = cluster.produce(group_id, 0)
    cluster.produce(group_id, _RECORDS if t % 60 == 0 else 0)
    cluster.commit(group_id, end)


def commits_once(cluster: Cluster, group_id: str, t: int) -> None:
    """A new group: the second commit comes after two minutes."""
    end = cluster.produce(group_id, _RECORDS)
    if t == STEP_S:
        cluster.members(group_id)
    if t > 0 and t % 120 == STEP_S:
        cluster.commit(group_id, end - _UNREAD)


INCIDENTS: Final = (
    Incident("Every transaction of the group is aborted", aborts),
    Incident("An open transaction holds the group's commits", held),
    Incident("The same, and the group keeps committing in it", held_again),
    Incident("A producer leaves a transaction open in the topic", behind_a_transaction),
    Incident("The group commits the same offset again and again", repeats),
    Incident("The same in one partition of twelve", one_stuck),
    Incident("The consumer pauses one of two topics", paused),
    Incident("The consumer is killed", killed),
    Incident("A new member never commits", never_commits),
    Incident("The group reads half of the produced records", slow),
    Incident("The offsets are reset to 0, then the group reads fast", reset),
    Incident("A rebalance every 10 s", rebalances),
    Incident("Records are deleted before the group reads them", loses),
    Incident("The topic is deleted", topic_deleted),
    Incident("A share group releases records for ever", shares),
    Incident("No incident: producers stop", no_production),
    Incident("No incident: a deployment takes 30 s", rolls),
    Incident("No incident: a consumer with `assign()`, little traffic", assigns),
    Incident("No incident: a new group commits every 2 min", commits_once),
)


def _join(cluster: Cluster, group_id: str, t: int, partitions: int = 1) -> None:
    if t == -WELL_S:
        cluster.members(group_id, (group_id, partitions))


def _reads(
    cluster: Cluster,
    group_id: str,
    partition: int = 0,
    *,
    t: int = 0,
    stops_at: int | None = None,
) -> None:
    """The group reads almost all records, and from `stops_at` on none."""
    end = cluster.produce(group_id, _RECORDS, partition)
    unread = 0 if stops_at is None else max(t - stops_at, 0) * 100
    cluster.commit(group_id, end - _UNREAD - unread, partition)
