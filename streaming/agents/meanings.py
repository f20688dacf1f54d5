"""The meanings of statuses, causes and events, as docs/ has them; a test compares both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from coordinator_state.insight.evidence import Cause
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import Status

STATUSES: Final[Mapping[Status, str]] = {
    Status.IDLE: "caught up, no members, and no commit for five minutes",
    Status.OK: "caught up, or the lag is within the limits",
    Status.UNKNOWN: (
        "no offset sample of the log for two minutes, tables that are two minutes behind, or "
        "a share group without known progress"
    ),
    Status.EXPIRING: "the offset expires within a day, by `offsets.retention.minutes` (KIP-211)",
    Status.WARN: (
        "the group reads less than producers write, or will lose records within an hour, or "
        "never commits"
    ),
    Status.REBALANCING_LOOP: "six rebalances in five minutes that no deployment explains",
    Status.REWIND: (
        "the committed offset went back in the last ten minutes, and is still below its "
        "earlier value"
    ),
    Status.STALL: (
        "the group commits the same offset again and again; or all its commits are aborted"
    ),
    Status.STOP: (
        "no commit for three times the usual time, at least 45 s; or an hour, if the usual time "
        "is not known"
    ),
    Status.PENDING: (
        "an open transaction holds back the group's commits, or the next records to read"
    ),
    Status.HANGING_TRANSACTION: (
        "a transaction holds the group back and should have ended: by its own time-out, because "
        "its coordinator has ended it, or after 15 minutes (`transaction.max.timeout.ms`)"
    ),
    Status.TOPIC_GONE: (
        "the offset remains, but the cluster has no such topic: it was deleted, or never created"
    ),
    Status.OUT_OF_RANGE: (
        "the committed offset is past the log end: a consumer that starts there resets it "
        "(`auto.offset.reset`)"
    ),
    Status.DATA_LOSS: (
        "the committed offset is below the log start: records were deleted before they were read"
    ),
}
"""From best to worst (docs/status.md)."""
CAUSES: Final[Mapping[Cause, str]] = {
    Cause.TOPIC_DELETED: "the topic was deleted; its committed offsets or its members remain",
    Cause.TOPIC_RECREATED: (
        "the topic was deleted and created again after the last commit: a committed offset is of "
        "the deleted topic"
    ),
    Cause.DATA_LOSS: "records were deleted before the group read them",
    Cause.OPEN_TRANSACTION: (
        "a transaction has been open for 10 s and holds commits back; the evidence has the "
        "commands that find and end it. Or a producer's transaction holds back the records of a "
        "topic"
    ),
    Cause.ABORTED_TRANSACTIONS: "two or more commits after the last applied one, all aborted",
    Cause.OFFSET_REWIND: "a member, or a consumer with `assign()`, committed a lower offset",
    Cause.OFFSET_RESET: "an offset was set while the group had no members, as an admin tool does",
    Cause.OFFSET_EXPIRED: "offsets expired after their retention",
    Cause.GROUP_DELETED: "the group was deleted, also if it exists again",
    Cause.OFFSET_DELETED: "single offsets were deleted",
    Cause.NO_MEMBERS: "the last member left and none came back",
    Cause.DEPLOY: "at least two members, and half of the group, were replaced within minutes",
    Cause.REBALANCES: (
        "six rebalances within five minutes; the evidence names the member that joins and leaves"
    ),
    Cause.CAUGHT_UP: "the group is not behind, no commit is overdue, and the lag does not grow",
    Cause.SAME_OFFSET: (
        "commits of a partition at the same offset for a minute, for example at a record that "
        "cannot be processed"
    ),
    Cause.MEMBERS_LEFT: "members left and were not replaced",
    Cause.NO_COMMITTED_OFFSET: (
        "partitions that the group reads without a committed offset have unread records"
    ),
    Cause.NO_OWNER: "a partition with a lag has no member, and nobody has committed for a minute",
    Cause.NO_COMMITS: (
        "records wait, but no commit came for three times the usual interval (at least 10 s), or "
        "for a minute; also if commits have resumed and the group has not caught up"
    ),
    Cause.PRODUCTION_RATE: "producers write at least twice as much since the lag began to grow",
    Cause.ONE_PARTITION: "one partition has 70 % of the lag or more",
    Cause.CONSUMPTION_RATE: "the group reads at most half as much since the lag began to grow",
    Cause.TRANSACTION_HUNG: "a transaction was open for more than a minute and has ended",
    Cause.STATUS: "no other cause is known; the evidence is the reason of the status",
}
"""The most direct cause first (docs/explain.md)."""
EVENTS: Final[Mapping[EventName, str]] = {
    EventName.GROUP_CREATED: (
        "a record created a group of this type; a conversion is a `group_deleted` and a "
        "`group_created`"
    ),
    EventName.GROUP_EMPTIED: "the last member left",
    EventName.GROUP_DELETED: "a tombstone deleted the group",
    EventName.REBALANCE: "a new generation (classic) or group epoch began",
    EventName.MEMBER_JOINED: "a member joined",
    EventName.MEMBER_LEFT: "a member left",
    EventName.ASSIGNMENT_CHANGED: (
        "the assignment (classic) or the target assignment (other types) of a member changed"
    ),
    EventName.OFFSET_REWIND: "a member, or a simple group, committed a lower offset than before",
    EventName.OFFSET_RESET: (
        "an offset of a group without members was set, as `kafka-consumer-groups "
        "--reset-offsets` does"
    ),
    EventName.OFFSET_DELETED: "a tombstone deleted an offset before its expiry",
    EventName.OFFSET_EXPIRED: (
        "a tombstone deleted an offset at its expiry (`offsets.retention.minutes` of the "
        "cluster, KIP-211)"
    ),
    EventName.TRANSACTION_HUNG: (
        "a transaction ended that held offsets for more than a minute (the default of "
        "`transaction.timeout.ms`)"
    ),
}
"""The events of groups (docs/events.md)."""
