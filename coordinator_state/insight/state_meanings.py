"""The meaning of each status and each state of a group, in one sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from coordinator_state.insight.group_status import Status

STATUS_MEANINGS: Final[Mapping[Status, str]] = MappingProxyType(
    {
        Status.IDLE: "Caught up, without members, and without a commit for five minutes.",
        Status.OK: "Caught up, or the lag is within the limits.",
        Status.UNKNOWN: "The tables or the samples of the log are too old for a verdict.",
        Status.EXPIRING: "The committed offset expires within a day.",
        Status.WARN: "The group reads less than producers write, or records will soon be deleted "
        "unread, or its members never commit.",
        Status.REBALANCING_LOOP: "Six rebalances or more within five minutes.",
        Status.REWIND: "The committed offset went back and is still below its earlier value.",
        Status.STALL: "The group commits the same offset again and again, or all its commits are "
        "aborted.",
        Status.STOP: "The group has a lag and no longer commits.",
        Status.PENDING: "An open transaction holds back the group's commits, or the next "
        "records to read.",
        Status.HANGING_TRANSACTION: "A transaction that holds the group back should have ended.",
        Status.TOPIC_GONE: "The topic does not exist, but its committed offset remains.",
        Status.OUT_OF_RANGE: "The committed offset is past the end of the log, so a consumer "
        "that starts there resets it.",
        Status.DATA_LOSS: "Records were deleted before the group read them.",
        Status.ERR: "Burrow's status of a group with a stopped or stalled partition.",
    }
)
"""The rules with all their limits are in docs/status.md."""

STATE_MEANINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Empty": "The group has no members; its committed offsets remain.",
        "PreparingRebalance": "Members join; nobody reads until the rebalance ends.",
        "CompletingRebalance": "The leader assigns the partitions; nobody reads yet.",
        "Stable": "Every member has its assignment.",
        "Assigning": "The coordinator computes a new assignment.",
        "Reconciling": "Members revoke and take over partitions.",
        "NotReady": "The topology or the source topics of the streams group are not ready.",
        "Dead": "Only tombstones of the group are left.",
    }
)
"""The states of groups of all types. Source: `GroupState` (org.apache.kafka.common) at 4.2.0."""
