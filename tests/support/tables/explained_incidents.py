"""Incidents of a group: each function lets one happen and ends in the middle of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator_state.insight.evidence import Cause
from tests.support.tables.incident import GROUP, PRODUCER, Incident

__all__ = ["CASES", "GROUP", "Case", "Incident"]


def healthy(**settings: Any) -> Incident:
    """A group of two members that has kept up for half an hour."""
    incident = Incident(**settings)
    incident.join("app-a", "app-b")
    incident.run(minutes=30)
    return incident


def simple(**settings: Any) -> Incident:
    """A consumer with `assign()` that has kept up for half an hour."""
    incident = Incident(**settings)
    incident.run(minutes=30, each=incident.assign_and_commit)
    return incident


# --- the incidents of the demo


def caught_up(**settings: Any) -> Incident:
    return healthy(**settings)


def rewound_by_a_consumer(**settings: Any) -> Incident:
    incident = simple(**settings)
    incident.consumed = dict.fromkeys(incident.consumed, 0.0)
    incident.run(minutes=3, each=incident.assign_and_commit)
    return incident


def stuck_without_a_commit(**settings: Any) -> Incident:
    incident = simple(**settings)
    incident.run(minutes=3)
    return incident


def rebalances_again_and_again(**settings: Any) -> Incident:
    incident = healthy(**settings)
    for _ in range(12):
        incident.join("app-c")
        incident.run(seconds=10)
        incident.leave("app-c")
        incident.run(seconds=10)
    return incident


def aborts_every_transaction(**settings: Any) -> Incident:
    incident = healthy(producer=PRODUCER, **settings)
    incident.ends_with = False
    incident.run(minutes=3)
    return incident


def never_ends_a_transaction(**settings: Any) -> Incident:
    incident = healthy(producer=PRODUCER, **settings)
    incident.ends_with = None
    incident.run(seconds=5)
    incident.reads = False
    incident.run(minutes=3)
    return incident


def has_offsets_deleted(**settings: Any) -> Incident:
    incident = simple(**settings)

    def commit_and_delete() -> None:
        incident.assign_and_commit()
        incident.coordinator.delete_offsets(incident.group, [(incident.topic, 1)])

    incident.run(minutes=4, each=commit_and_delete)
    return incident


def is_deleted(**settings: Any) -> Incident:
    incident = simple(**settings)
    incident.coordinator.delete_groups([incident.group])
    incident.run(minutes=1)
    return incident


# --- other incidents


def producers_write_ten_times_more() -> Incident:
    incident = healthy()
    incident.produce_per_s *= 10
    incident.run(minutes=5)
    return incident


def one_partition_is_slow() -> Incident:
    incident = healthy()
    incident.slow = {2: 4.0}
    incident.run(minutes=10)
    return incident


def a_member_left() -> Incident:
    incident = healthy(read_per_s=60.0)
    incident.leave("app-b")
    incident.run(minutes=6)
    return incident


def a_deploy_replaces_all_members() -> Incident:
    incident = Incident(read_per_s=60.0)
    old, new = ([f"app-{letter}" for letter in letters] for letters in ("abc", "def"))
    incident.join(*old)
    incident.run(minutes=30)
    for before, after in zip(old, new, strict=True):
        incident.leave(before)
        incident.run(seconds=20)
        incident.join(after)
        incident.run(seconds=20)
    incident.read_per_s = 20.0
    incident.run(minutes=5)
    return incident


def a_storm_of_deploys() -> Incident:
    incident = healthy()
    incident.read_per_s = 15.0
    members = ["app-a", "app-b"]
    for number in range(4):
        for index in (0, 1):
            incident.leave(members[index])
            members[index] = f"app-{number}-{index}"
            incident.join(members[index])
            incident.run(seconds=40)
    return incident


def one_record_is_poison() -> Incident:
    incident = healthy()
    incident.poison = {1: round(incident.consumed[1]) + 50}
    incident.run(minutes=4)
    return incident


def a_transaction_outlives_its_member() -> Incident:
    incident = never_ends_a_transaction()
    incident.leave("app-a", "app-b")
    incident.run(minutes=2)
    return incident


def all_members_leave() -> Incident:
    incident = healthy()
    incident.leave("app-a", "app-b")
    incident.run(minutes=3)
    return incident


def an_admin_resets_to_earliest() -> Incident:
    incident = healthy()
    incident.leave("app-a", "app-b")
    incident.run(seconds=20)
    incident.consumed = dict.fromkeys(incident.consumed, 0.0)
    incident.commit(incident.ends)
    incident.join("app-a", "app-b")
    incident.run(minutes=3)
    return incident


def the_topic_is_created_again() -> Incident:
    incident = healthy()
    incident.topic_id = 2
    incident.ends = dict.fromkeys(incident.ends, 0.0)
    incident.reads = False
    incident.run(minutes=3)
    return incident


def the_topic_is_deleted() -> Incident:
    incident = healthy()
    incident.is_gone, incident.reads = True, False
    incident.run(minutes=3)
    return incident


def the_offsets_expire() -> Incident:
    incident = healthy()
    incident.leave("app-a", "app-b")
    incident.run(minutes=25)
    incident.coordinator.expire_offsets()
    incident.run(minutes=1)
    return incident


def a_partition_has_no_owner() -> Incident:
    incident = healthy()
    incident.unassign(3)
    incident.run(minutes=4)
    return incident


def records_are_deleted_unread() -> Incident:
    incident = healthy()
    incident.reads = False
    incident.run(minutes=5)
    incident.log_start = round(incident.ends[0]) - 1_000
    incident.run(minutes=1)
    return incident


def members_read_slower() -> Incident:
    incident = healthy()
    incident.read_per_s = 10.0
    incident.run(minutes=6)
    return incident


Case = Callable[..., Incident]

CASES: list[tuple[Case, Cause]] = [
    (caught_up, Cause.CAUGHT_UP),
    (rewound_by_a_consumer, Cause.OFFSET_REWIND),
    (stuck_without_a_commit, Cause.NO_COMMITS),
    (rebalances_again_and_again, Cause.REBALANCES),
    (aborts_every_transaction, Cause.ABORTED_TRANSACTIONS),
    (never_ends_a_transaction, Cause.OPEN_TRANSACTION),
    (has_offsets_deleted, Cause.OFFSET_DELETED),
    (is_deleted, Cause.GROUP_DELETED),
    (producers_write_ten_times_more, Cause.PRODUCTION_RATE),
    (one_partition_is_slow, Cause.ONE_PARTITION),
    (a_member_left, Cause.MEMBERS_LEFT),
    (a_deploy_replaces_all_members, Cause.DEPLOY),
    (a_storm_of_deploys, Cause.DEPLOY),
    (one_record_is_poison, Cause.SAME_OFFSET),
    (a_transaction_outlives_its_member, Cause.OPEN_TRANSACTION),
    (all_members_leave, Cause.NO_MEMBERS),
    (an_admin_resets_to_earliest, Cause.OFFSET_RESET),
    (the_topic_is_created_again, Cause.TOPIC_RECREATED),
    (the_topic_is_deleted, Cause.TOPIC_DELETED),
    (the_offsets_expire, Cause.OFFSET_EXPIRED),
    (a_partition_has_no_owner, Cause.NO_OWNER),
    (records_are_deleted_unread, Cause.DATA_LOSS),
    (members_read_slower, Cause.CONSUMPTION_RATE),
]
"""Each incident, and the cause that `explain` must find first."""
