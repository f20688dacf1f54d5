"""A GroupMetadata value makes the same group, whatever the group was before."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.replay.classic_groups import classic_group

_SUBSCRIPTIONS = [
    b"",
    b"\x00",
    encode_subscription({"topics": ["t"], "userData": None, "generationId": 1}),
    encode_subscription({"topics": ["t"], "userData": None, "generationId": 2}),
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
        found = classic_group("g", value, record_offset, before)
        assert found == classic_group("g", value, record_offset)
        before = found


@given(value=_VALUES)
def test_members_of_an_equal_value_are_the_same_objects(value: dict[str, Any]) -> None:
    before = classic_group("g", value, 0)
    again = classic_group("g", value, 1, before)
    assert [id(member) for member in again.members] == [id(member) for member in before.members]
