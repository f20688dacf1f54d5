"""Kafka's own cases of expiry, step by step in their clocks' time.

`testOffsetExpiration…` of GroupMetadataManagerTest.scala at 3.9.1, `testCleanupExpiredOffsets…` of
OffsetMetadataManagerTest.java and OffsetExpirationConditionImplTest.java at 4.2.0. A clean-up at a
time expires what `expiry` says is due by then.
"""

from __future__ import annotations

import pytest

from coordinator_state.replay.expiry import expiry
from coordinator_state.replay.groups import CLASSIC, EMPTY, STABLE, Group, simple_group
from coordinator_state.replay.offsets import Semantics

RETENTION_MS = 60_000
START_MS = 1_000_000


def classic(state: str, *topics: str, state_timestamp_ms: int | None = None) -> Group:
    return Group(
        group_id="g",
        group_type=CLASSIC,
        state=state,
        protocol_type="consumer",
        state_timestamp_ms=state_timestamp_ms,
        subscribed_topics=topics,
    )


def expires_at(
    group: Group | None,
    topic: str = "foo",
    *,
    commit_timestamp_ms: int = START_MS,
    expire_timestamp_ms: int | None = None,
    is_pending: bool = False,
    retention_ms: int = RETENTION_MS,
    semantics: Semantics = Semantics.COORDINATOR,
) -> int | None:
    return expiry(
        group,
        topic,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        is_pending=is_pending,
        retention_ms=retention_ms,
        semantics=semantics,
    ).at_ms


def test_is_offset_expired() -> None:
    simple = simple_group("g")
    assert expires_at(simple, commit_timestamp_ms=500, expire_timestamp_ms=1500) == 1500
    assert expires_at(simple, commit_timestamp_ms=500, retention_ms=500) == 1000


def test_offset_expiration_semantics() -> None:
    """Two offsets of old clients with times of their own, one of a new client."""
    own = (START_MS + 1, START_MS + 3, None)
    active = classic(STABLE, "foo")
    for semantics in Semantics:
        assert {
            expires_at(active, expire_timestamp_ms=time, semantics=semantics) for time in own
        } == {None}
    emptied_at = START_MS + 2
    empty = classic(EMPTY, state_timestamp_ms=emptied_at)
    assert [expires_at(empty, expire_timestamp_ms=time) for time in own] == [
        START_MS + 1,
        START_MS + 3,
        emptied_at + RETENTION_MS,
    ]


def test_offset_expiration_of_simple_consumer() -> None:
    assert expires_at(simple_group("g")) == START_MS + RETENTION_MS


def test_offset_expiration_of_active_group_semantics() -> None:
    """A group that stops to read a topic keeps the offsets of the other."""
    both = classic(STABLE, "foo", "bar")
    assert (expires_at(both, "foo"), expires_at(both, "bar")) == (None, None)
    one = classic(STABLE, "foo")
    assert (expires_at(one, "foo"), expires_at(one, "bar")) == (None, START_MS + RETENTION_MS)


@pytest.mark.parametrize("later_ms", [0, 500])
def test_cleanup_expired_offsets(later_ms: int) -> None:
    group = classic(STABLE, "firstTopic")
    assert expires_at(group, "firstTopic") is None
    due = expires_at(group, "secondTopic", commit_timestamp_ms=START_MS + later_ms)
    assert due == START_MS + later_ms + RETENTION_MS


def test_cleanup_expired_offsets_with_pending_transactional_offsets() -> None:
    assert expires_at(classic(EMPTY), is_pending=True) is None


def test_cleanup_expired_offsets_group_does_not_exist() -> None:
    assert expires_at(None) is None


def test_cleanup_expired_offsets_empty_offset_expiration_condition() -> None:
    """A group with members of another protocol has no condition: nothing of it expires."""
    connect = Group(
        group_id="g",
        group_type=CLASSIC,
        state=STABLE,
        protocol_type="connect",
        subscribed_topics=None,
    )
    assert expires_at(connect) is None
