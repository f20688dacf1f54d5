"""The model's consumer groups (KIP-848) where no broker can be made to answer in time."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.consumer_group import ConsumerGroupState
from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.requests import (
    MemberIdentity,
    SyncGroupRequest,
)
from tests.support.clients.model_consumers import (
    GROUP,
    JOINS,
    REBALANCE_MS,
    SESSION_MS,
    assignment,
    beat,
    classic_coordinator,
    classic_join,
    consumer_group,
    join,
    new_coordinator,
    wait,
)

# --- sessions and timeouts


def test_a_member_whose_session_ends_is_out() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    join(coordinator, "b")
    wait(coordinator, SESSION_MS - 1)
    assert beat(coordinator, "a", 1).member_epoch == 1
    wait(coordinator, 1)
    assert list(consumer_group(coordinator).members) == ["a"]
    assert consumer_group(coordinator).group_epoch == 3
    assert beat(coordinator, "b", 2).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    wait(coordinator, SESSION_MS)
    assert consumer_group(coordinator).state is ConsumerGroupState.EMPTY


def test_a_member_that_gives_nothing_up_is_out() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    join(coordinator, "b")
    beat(coordinator, "a", 1)
    assert consumer_group(coordinator).state is ConsumerGroupState.RECONCILING
    wait(coordinator, REBALANCE_MS - 1)
    assert set(consumer_group(coordinator).members) == {"a", "b"}
    wait(coordinator, 1)
    assert list(consumer_group(coordinator).members) == ["b"]


def test_a_member_that_gave_up_stays() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    join(coordinator, "b")
    assigned = beat(coordinator, "a", 1).assigned
    assert beat(coordinator, "a", 1, owned=assigned).member_epoch == 2
    wait(coordinator, REBALANCE_MS)
    assert set(consumer_group(coordinator).members) == {"a", "b"}


def test_a_static_member_that_is_away_for_too_long_is_out() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a", group_instance_id="i")
    assert beat(coordinator, "a", -2, group_instance_id="i").member_epoch == -2
    wait(coordinator, SESSION_MS)
    assert consumer_group(coordinator).is_empty


def test_what_a_timer_cannot_append_it_appends_later() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    wait(coordinator, SESSION_MS)
    assert list(consumer_group(coordinator).members) == ["a"]
    coordinator.log.refusal = ErrorCode.NONE
    wait(coordinator, 500)
    assert consumer_group(coordinator).is_empty


@pytest.mark.parametrize("syncs", [False, True])
def test_a_classic_member_that_does_not_go_on_is_out(syncs: bool) -> None:
    """It is to sync after each join, and to join when a heartbeat says so."""
    coordinator, member_id = classic_coordinator()
    join(coordinator, "b")
    assert coordinator.heartbeat(GROUP, member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    generation = coordinator.join_group(classic_join(member_id)).get().generation_id
    if syncs:
        synced = coordinator.sync_group(
            SyncGroupRequest(group_id=GROUP, member_id=member_id, generation_id=generation)
        )
        assert synced.get().error_code is ErrorCode.NONE
        # The other one waits for what this one gave up, and comes: another epoch, another join.
        beat(coordinator, "b", 2, subscribed_topics=["t", "u"])
        rebalance = ErrorCode.REBALANCE_IN_PROGRESS
        assert coordinator.heartbeat(GROUP, member_id, generation) is rebalance
        assert coordinator.heartbeat(GROUP, member_id, generation) is rebalance
    wait(coordinator, REBALANCE_MS)
    assert list(consumer_group(coordinator).members) == ["b"]


def test_what_a_member_gives_up_is_waited_for_once() -> None:
    """Another assignor is no reason to wait for longer."""
    coordinator = new_coordinator()
    join(coordinator, "a")
    join(coordinator, "b")
    beat(coordinator, "a", 1)
    wait(coordinator, REBALANCE_MS - 5_000)
    beat(coordinator, "a", 1, server_assignor="range")
    wait(coordinator, 5_000)
    assert list(consumer_group(coordinator).members) == ["b"]


def test_timers_find_a_group_that_was_converted_there_and_back() -> None:
    """As a broker does not cancel them: a classic member was to join again, and did not."""
    coordinator, member_id = classic_coordinator()
    join(coordinator, "n")
    began_ms = coordinator.shard.now_ms
    assert coordinator.heartbeat(GROUP, member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    beat(coordinator, "n", -1)
    rejoined = coordinator.join_group(classic_join(member_id))
    wait(coordinator, 3_000)
    coordinator.sync_group(
        SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            generation_id=rejoined.get().generation_id,
            assignments={member_id: assignment(0)},
        )
    )
    join(coordinator, "n2")
    coordinator.advance(began_ms + REBALANCE_MS - 1)
    assert member_id in consumer_group(coordinator).members
    wait(coordinator, 1)
    assert list(consumer_group(coordinator).members) == ["n2"]


# --- appends that fail


def test_a_member_that_could_not_leave_stays_until_it_is_heard_of() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    beat(coordinator, "a", -1)
    coordinator.log.refusal = ErrorCode.NONE
    wait(coordinator, 10 * SESSION_MS)
    assert list(consumer_group(coordinator).members) == ["a"]
    beat(coordinator, "a", 1)
    wait(coordinator, SESSION_MS)
    assert consumer_group(coordinator).is_empty


@pytest.mark.parametrize(
    ("member_id", "request_"),
    [("b", JOINS), ("a", {"subscribed_topics": ["u"]})],
)
def test_a_heartbeat_that_cannot_be_appended_changes_nothing(
    member_id: str, request_: dict[str, Any]
) -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    before = consumer_group(coordinator).copy()
    coordinator.log.refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = 1 if member_id == "a" else 0
    answer = beat(coordinator, member_id, epoch, **request_)
    assert answer.error_code is ErrorCode.NOT_COORDINATOR
    assert beat(coordinator, "a", -1).error_code is ErrorCode.NOT_COORDINATOR
    assert consumer_group(coordinator) == before


def test_a_step_that_cannot_be_appended_is_to_be_taken_in_time() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    beat(coordinator, "a", 1, subscribed_topics=["u"])
    coordinator.log.refusal = ErrorCode.NONE
    # It has nothing to give up, which ends nothing.
    assert beat(coordinator, "a", 1).error_code is ErrorCode.NONE
    wait(coordinator, REBALANCE_MS)
    assert not consumer_group(coordinator).members


def test_a_conversion_that_cannot_be_appended_changes_nothing() -> None:
    coordinator, member_id = classic_coordinator()
    before = coordinator.groups[GROUP]
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    unavailable = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert beat(coordinator, "b", 0, **JOINS).error_code is unavailable
    assert coordinator.groups[GROUP] is before
    coordinator.log.refusal = ErrorCode.NONE
    join(coordinator, "b")
    converted = consumer_group(coordinator)
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    assert beat(coordinator, "b", -1).error_code is unavailable
    left = coordinator.leave_group(GROUP, [MemberIdentity(member_id=member_id)])
    assert left.error_code is unavailable
    joined = coordinator.join_group(classic_join(member_id)).get()
    assert joined.error_code is unavailable
    assert consumer_group(coordinator) == converted


def test_an_empty_group_stays_where_a_classic_one_cannot_be_appended() -> None:
    coordinator = new_coordinator()
    join(coordinator, "a")
    beat(coordinator, "a", -1)
    before = consumer_group(coordinator)
    coordinator.log.refusal = ErrorCode.NOT_ENOUGH_REPLICAS
    coordinator.join_group(classic_join())
    assert consumer_group(coordinator) is before
    coordinator.log.refusal = ErrorCode.NONE
    coordinator.join_group(classic_join())
    assert isinstance(coordinator.groups[GROUP], ClassicGroup)
