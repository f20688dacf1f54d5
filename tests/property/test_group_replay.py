"""Groups that are put together again from their answers and the last record of each key."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.errors import ReplayError
from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.classic_groups import classic_group
from coordinator_state.replay.group_replay import (
    GroupRecord,
    GroupReplay,
    GroupState,
    described,
    name_of,
    restored_group,
)
from coordinator_state.replay.groups import Group
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.modern_groups import ModernGroup, ModernMember
from coordinator_state.replay.releases import Release
from tests.support.logs.modern_records import KeyAndValue, ModernRecords
from tests.support.logs.random_logs import GROUPS, TOPICS, seed_lists


def _log(seeds: list[int]) -> list[KeyAndValue]:
    """One draw a seed, so that what does not matter is left out of a failing log."""
    return [
        record
        for seed in seeds
        for record in ModernRecords(random.Random(seed), TOPICS).draw(GROUPS)
    ]


_LOGS = seed_lists(40).map(_log)


def _decoded(log: list[KeyAndValue]) -> list[GroupRecord]:
    records = []
    for record_offset, (raw_key, raw_value) in enumerate(log):
        key = decode_key(raw_key)
        value = None if raw_value is None else decode_value(key.record_type, raw_value).fields
        records.append(
            GroupRecord(key.record_type.id, key.group_id, name_of(key.fields), value, record_offset)
        )
    return records


def _restored(state: GroupState, last: dict[tuple[int, str, str], GroupRecord]) -> GroupState:
    """What a new process makes of the tables."""
    if not isinstance(state, ModernGroup):
        return state
    answer = described(state)
    members = {
        member.member_id: ModernMember(
            member_id=member.member_id,
            created_record_offset=member.created_record_offset or 0,
            epoch=member.member_epoch,
            state=member.member_state,
        )
        for member in answer.members
    }
    of_group = [record for record in last.values() if record.group_id == answer.group_id]
    return restored_group(
        answer.group_id,
        answer.group_type,
        release=state.release,
        created_record_offset=state.created_record_offset,
        record_offset=answer.record_offset,
        replay_warning=answer.replay_warning,
        members=members,
        records=of_group,
    )


@given(
    log=_LOGS,
    every=st.sampled_from([1, 1, 2, 7]),
    commits=st.sets(st.integers(0, 100)),
    release=st.sampled_from(Release),
)
def test_restored_groups_replay_on_like_those_that_never_stopped(
    log: list[KeyAndValue], every: int, commits: set[int], release: Release
) -> None:
    whole, again = GroupReplay(release=release), GroupReplay(release=release)
    last: dict[tuple[int, str, str], GroupRecord] = {}
    for record in _decoded(log):
        for replay in (whole, again):
            if record.record_offset in commits:
                replay.replay_offset_commit(record.group_id)
            replay.replay(record)
        last[record.record_type, record.group_id, record.name] = record
        if record.record_offset % every == 0:
            states = {group: _restored(state, last) for group, state in again.states.items()}
            again = GroupReplay(states, release)

        assert again.groups == whole.groups


@given(log=_LOGS, cut=st.integers(0, 100))
def test_a_group_that_is_given_stays_as_it_is(log: list[KeyAndValue], cut: int) -> None:
    records = _decoded(log)
    first = GroupReplay()
    for record in records[:cut]:
        first.replay(record)
    before = dict(first.groups)

    second = GroupReplay(dict(first.states))
    for record in records[cut:]:
        second.replay(record)

    assert first.groups == before


@given(log=_LOGS)
def test_strict_rules_stop_at_the_first_warning(log: list[KeyAndValue]) -> None:
    lenient, strict = ReferenceLoader(), ReferenceLoader(strict=True)
    for record_offset, (key, value) in enumerate(log):
        lenient.replay(record_offset=record_offset, key=key, value=value)
    with_warning = [warning.record_offset for warning in lenient.replay_warnings]
    for record_offset, (key, value) in enumerate(log):
        if with_warning[:1] == [record_offset]:
            with pytest.raises(ReplayError, match=f"^record offset {record_offset}: "):
                strict.replay(record_offset=record_offset, key=key, value=value)
            return
        strict.replay(record_offset=record_offset, key=key, value=value)
    assert strict.groups == lenient.groups
    assert all(
        isinstance(group, Group) and group.replay_warning is None
        for group in strict.groups.values()
    )


# --- classic groups: a value makes the same group, whatever the group was before

_SUBSCRIPTIONS = [
    *(b"", b"\x00"),
    *(
        encode_subscription({"topics": ["t"], "userData": None, "generationId": generation})
        for generation in (1, 2)
    ),
    encode_subscription({"topics": ["u"], "userData": b"\x01", "rackId": "r"}),
]
_ASSIGNMENTS = [
    b"",
    b"\x00",
    *(
        encode_assignment(
            {"assignedPartitions": [{"topic": "t", "partitions": [p]}], "userData": None}
        )
        for p in range(2)
    ),
]
_MEMBERS = st.fixed_dictionaries(
    {
        "memberId": st.sampled_from(["a", "b"]),
        "groupInstanceId": st.sampled_from([None, "i"]),
        "clientId": st.sampled_from(["c", "d"]),
        "clientHost": st.just("/h"),
        "rebalanceTimeout": st.sampled_from([-1, 5]),
        "sessionTimeout": st.sampled_from([5, 6]),
        "subscription": st.sampled_from(_SUBSCRIPTIONS),
        "assignment": st.sampled_from(_ASSIGNMENTS),
    }
)
_VALUES = st.fixed_dictionaries(
    {
        "protocolType": st.sampled_from(["consumer", "connect", ""]),
        "generation": st.integers(0, 2),
        "protocol": st.sampled_from([None, "range"]),
        "leader": st.sampled_from([None, "a"]),
        "currentStateTimestamp": st.sampled_from([-1, 7]),
        # Ids may repeat.
        "members": st.lists(_MEMBERS, max_size=3),
    }
)


@given(values=st.lists(_VALUES, min_size=2, max_size=4))
def test_a_value_makes_the_same_group_whatever_was_before(values: list[dict[str, Any]]) -> None:
    before = None
    for record_offset, value in enumerate(values):
        group = classic_group("g", value, record_offset, before)
        assert group == classic_group("g", value, record_offset)
        # Members of an equal value are the same objects.
        again = classic_group("g", value, record_offset, group)
        assert [id(member) for member in again.members] == [id(member) for member in group.members]
        before = group
