"""When a committed offset expires, by the rules of the coordinator's clean-up.

An offset of a topic that its group subscribes to never expires, nor, since Kafka 4, one beside
which a transactional offset waits. Of the others, one with an expire timestamp of its own (value
v1) expires then; any other, `offsets.retention.minutes` after the group became Empty, where that is
known and the group has a protocol type, else after its commit. Rebalances of a classic group, and
groups whose subscription a coordinator cannot read, keep all of their offsets. Share groups commit
none, and offsets whose group is gone are never looked at.

Nothing here says that an offset is gone: brokers look at intervals, and what they have expired is a
tombstone in the log.

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
    """What an expiry time, or its absence, is due to."""

    COMMIT = "retention after the commit"
    EMPTY_GROUP = "retention after the group became Empty"
    EXPLICIT = "the commit's own expire timestamp"
    SUBSCRIBED = "never: the group subscribes to the topic"
    PENDING = "never: a transactional offset waits"
    ACTIVE_GROUP = "never: the group has members, and what they subscribe to is not known"
    NO_GROUP = "never: the group is gone"
    SHARE_GROUP = "never: share groups keep no offsets here"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiry:
    """When an offset expires, None for never, and why."""

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
    """When a committed offset of a group expires.

    Args:
        group: None where the group is gone.
        topic: of the offset.
        commit_timestamp_ms: of the offset.
        expire_timestamp_ms: of the offset, None without.
        is_pending: whether a transactional offset waits beside it.
        retention_ms: `offsets.retention.minutes` of the broker.
        semantics: `scala` does not look at transactional offsets that wait (KAFKA-19163).
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
