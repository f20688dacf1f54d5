"""The expiry time of a committed offset, by the rules of the coordinator's clean-up.

An offset does not expire in these cases:

- its group subscribes to the topic;
- a transactional commit of the same key is pending (since Kafka 4);
- its classic group is rebalancing;
- its classic group has members, and the coordinator cannot read their subscription;
- its group is deleted: brokers do not check such offsets.

Share groups commit no offsets. Otherwise, an offset with its own expire timestamp (value v1)
expires at that time. Any other offset expires `offsets.retention.minutes` after its group became
Empty, if that time is known and the group has a protocol type, or else after its commit.

An offset past its expiry time may still exist: brokers check at intervals, and write a tombstone to
the log when they expire it.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
OffsetMetadataManager.java (`cleanupExpiredOffsets`), OffsetExpirationConditionImpl.java and
classic/ClassicGroup.java (`offsetExpirationCondition`) at 4.2.0; KIP-211.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from coordinator_state.records.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from coordinator_state.replay.groups import CLASSIC, EMPTY, SHARE, STABLE, Group
from coordinator_state.replay.offsets import Semantics


class ExpiryReason(Enum):
    """The rule that decided the expiry time."""

    COMMIT = "retention after the commit"
    EMPTY_GROUP = "retention after the group became Empty"
    EXPLICIT = "the commit's own expire timestamp"
    SUBSCRIBED = "never: the group subscribes to the topic"
    PENDING = "never: a transactional commit is pending"
    ACTIVE_GROUP = "never: the group has members, and their subscription is unknown"
    NO_GROUP = "never: the group is deleted"
    SHARE_GROUP = "never: share groups have no offsets here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """The time at which an offset expires, None for never, and the reason."""

    at_ms: int | None
    reason: ExpiryReason


def expiry(
    group: Group | None,
    topic: str,
    *,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int | None,
    is_pending: bool,
    retention_ms: int,
    semantics: Semantics = Semantics.COORDINATOR,
) -> Expiry:
    """Decide when a committed offset of a group expires.

    Args:
        group: the group, None if it is deleted.
        topic: the topic of the offset.
        commit_timestamp_ms: the commit timestamp of the offset.
        expire_timestamp_ms: the offset's own expire timestamp, None without one.
        is_pending: whether a transactional commit of the same key is pending.
        retention_ms: `offsets.retention.minutes` of the broker, in milliseconds.
        semantics: the loader's rules; `scala` ignores pending commits (KAFKA-19163).
    """
    if group is None:
        return _never(ExpiryReason.NO_GROUP)
    if group.group_type == SHARE:
        return _never(ExpiryReason.SHARE_GROUP)
    reason = ExpiryReason.COMMIT
    base_ms = commit_timestamp_ms
    if group.group_type == CLASSIC and not group.is_simple:
        is_readable = (
            group.protocol_type == CONSUMER_PROTOCOL_TYPE and group.subscribed_topics is not None
        )
        if group.state == EMPTY:
            if group.state_timestamp_ms is not None:
                reason, base_ms = ExpiryReason.EMPTY_GROUP, group.state_timestamp_ms
        elif group.state != STABLE or not is_readable:
            return _never(ExpiryReason.ACTIVE_GROUP)
    if topic in (group.subscribed_topics or ()):
        return _never(ExpiryReason.SUBSCRIBED)
    if is_pending and semantics is Semantics.COORDINATOR:
        return _never(ExpiryReason.PENDING)
    if expire_timestamp_ms is not None:
        return Expiry(at_ms=expire_timestamp_ms, reason=ExpiryReason.EXPLICIT)
    return Expiry(at_ms=base_ms + retention_ms, reason=reason)


def _never(reason: ExpiryReason) -> Expiry:
    return Expiry(at_ms=None, reason=reason)
