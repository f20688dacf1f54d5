"""Member bytes as JSON; those of Connect and Streams are what their own classes wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.member_json import assignment_json, subscription_json
from tests.golden.record import read_golden

WRITTEN = {case["name"]: bytes.fromhex(case["raw"]) for case in read_golden("member_bytes")}
NUMBERED = range(1, 12)
WORKER = {"url": "http://w1:8083/", "config-offset": 7}
LEADER = {"leader": "w1", "leader-url": "http://w1:8083/", "config-offset": 7}


def streams(message: str, version: int) -> Any:
    """The user data of Kafka Streams where it stands, in the bytes of the consumer protocol."""
    raw = WRITTEN[f"{message} {version}"]
    if message == "SubscriptionInfo":
        return subscription_of("stream", raw)["userData"]
    whole = encode_assignment({"assignedPartitions": [], "userData": raw})
    return (assignment_json("consumer", "stream", whole) or {})["userData"]


def subscription_of(protocol: str, user_data: bytes) -> dict[str, Any]:
    """The subscription of a consumer with this user data."""
    whole = encode_subscription({"topics": [], "userData": user_data})
    return subscription_json("consumer", protocol, whole) or {}


class TestConnect:
    """ConnectProtocolCompatibilityTest: a worker of another protocol is understood, too."""

    def test_eager(self) -> None:
        assert subscription_json("connect", "default", WRITTEN["connect subscription 0"]) == {
            "version": 0,
            **WORKER,
        }
        assert assignment_json("connect", "default", WRITTEN["connect assignment 0"]) == {
            "version": 0,
            "error": 1,
            **LEADER,
            "assignment": [{"connector": "sink", "tasks": [-1, 0, 1]}],
        }

    @pytest.mark.parametrize("version", [1, 2])
    def test_cooperative(self, version: int) -> None:
        assignment = {
            "version": version,
            "error": 0,
            **LEADER,
            "assignment": [{"connector": "sink", "tasks": [-1, 1]}],
            "revoked": [{"connector": "old", "tasks": [3]}],
            "delay": 300_000,
        }
        raw = WRITTEN[f"connect assignment {version}"]
        assert assignment_json("connect", "sessioned", raw) == assignment
        raw = WRITTEN[f"connect subscription {version}"]
        allocated = {"version": version, **WORKER, "allocation": assignment}
        assert subscription_json("connect", "sessioned", raw) == allocated
        raw = WRITTEN[f"connect subscription without assignment {version}"]
        assert (subscription_json("connect", None, raw) or {})["allocation"] is None

    def test_an_allocation_that_is_none_stays_as_it_is(self) -> None:
        raw = WRITTEN["connect subscription 1"][:-72] + b"\0"
        cut = raw[:27] + len(raw[31:]).to_bytes(4, "big") + raw[31:]
        assert isinstance((subscription_json("connect", None, cut) or {})["allocation"], str)


PARTITIONS = [{"topic": "orders", "partition": 1}]
TASK = {"topicGroupId": 0, "partition": 1}
SUMS = [{"partition": 1, "offsetSum": -2}]
Since = tuple[str, int, int, Any]
"""A field, its first and its last version, and its value."""

SUBSCRIPTION_INFO: list[Since] = [
    ("latestSupportedVersion", 3, 11, 11),
    ("processId", 1, 11, "AAAAAAAAAAEAAAAAAAAAAg"),
    ("prevTasks", 1, 6, [TASK]),
    ("standbyTasks", 1, 6, []),
    ("userEndPoint", 2, 11, "host:8080"),
    ("taskOffsetSums", 7, 9, [{"topicGroupId": 0, "partitionToOffsetSum": SUMS}]),
    ("taskOffsetSums", 10, 11, [{**TASK, "offsetSum": -2, "namedTopology": "named"}]),
    ("uniqueField", 8, 11, 3),
    ("errorCode", 9, 11, 0),
    ("clientTags", 11, 11, {"zone": "eu-1"}),
]
ASSIGNMENT_INFO: list[Since] = [
    ("partitionsByHost", 2, 11, [{"host": "host", "port": 8080, "partitions": PARTITIONS}]),
    ("commonlySupportedVersion", 3, 11, 11),
    ("errCode", 4, 11, 3),
    ("standbyPartitionsByHost", 6, 11, [{"host": "other", "port": 8081, "partitions": PARTITIONS}]),
    ("nextRebalanceMs", 7, 11, 2**63 - 1),
]


class TestStreams:
    """SubscriptionInfoTest and AssignmentInfoTest: every version."""

    def expected(self, fields: list[Since], version: int) -> dict[str, Any]:
        known = (field for field in fields if field[1] <= version <= field[2])
        return {"version": version, **{name: value for name, _, _, value in known}}

    @pytest.mark.parametrize("version", NUMBERED)
    def test_subscription_info(self, version: int) -> None:
        expected = self.expected(SUBSCRIPTION_INFO, version)
        assert streams("SubscriptionInfo", version) == expected

    @pytest.mark.parametrize("version", NUMBERED)
    def test_assignment_info(self, version: int) -> None:
        name = {"namedTopology": "named"} if version >= 10 else {}
        no_name = {"namedTopology": None} if version >= 10 else {}
        standby = {"topicGroupId": 0, "partition": 2, **no_name, "partitions": PARTITIONS}
        assert streams("AssignmentInfo", version) == {
            "activeTasks": [{**TASK, **name}, {"topicGroupId": 1, "partition": 0, **no_name}],
            "standbyTasks": [standby],
            **self.expected(ASSIGNMENT_INFO, version),
        }

    @pytest.mark.parametrize("version", [0, 12, -1])
    def test_another_version_stays_as_it_is(self, version: int) -> None:
        raw = version.to_bytes(4, "big", signed=True) + WRITTEN["SubscriptionInfo 11"][4:]
        assert isinstance(subscription_of("stream", raw)["userData"], str)


STICKY = "00000001000174000000020000000000000001"
PREVIOUS = [{"topic": "t", "partitions": [0, 1]}]


class TestConsumer:
    def test_a_subscription_and_an_assignment(self) -> None:
        subscription = {
            "topics": ["t"],
            "userData": None,
            "ownedPartitions": [{"topic": "t", "partitions": [1]}],
            "generationId": 4,
            "rackId": "r",
        }
        whole = encode_subscription(subscription)
        assert subscription_json("consumer", "range", whole) == {"version": 3, **subscription}
        assignment = {"assignedPartitions": [{"topic": "t", "partitions": [0]}], "userData": b"\1"}
        document = assignment_json("consumer", "range", encode_assignment(assignment))
        assert document == {"version": 3, **assignment, "userData": "AQ=="}

    @pytest.mark.parametrize(
        ("protocol", "user_data", "expected"),
        [
            # As StickyAssignor writes it: [{t, [0, 1]}], then generation 9; and without, as before.
            ("sticky", f"{STICKY}00000009", {"previous_assignment": PREVIOUS, "generation": 9}),
            ("sticky", STICKY, {"previous_assignment": PREVIOUS}),
            ("cooperative-sticky", "00000009", {"generation": 9}),
            ("cooperative-sticky", "0009", "AAk="),
            ("sticky", "ff", "/w=="),
            ("a custom assignor", "00000009", "AAAACQ=="),
            ("stream", "", ""),
        ],
    )
    def test_user_data(self, protocol: str, user_data: str, expected: object) -> None:
        assert subscription_of(protocol, bytes.fromhex(user_data))["userData"] == expected


def test_no_bytes_and_other_protocol_types_have_no_json() -> None:
    for protocol_type in ("", "consumer", "connect", "sr"):
        assert subscription_json(protocol_type, None, None) is None
        assert assignment_json(protocol_type, None, b"") is None
    raw = encode_subscription({"topics": [], "userData": None})
    assert subscription_json("sr", "v0", raw) is None
    assert assignment_json("sr", "v0", encode_assignment({"assignedPartitions": []})) is None


@given(
    raw=st.sampled_from(sorted(WRITTEN.values())),
    cut=st.integers(0, 120),
    change=st.tuples(st.integers(0, 119), st.integers(0, 255)),
)
def test_damaged_bytes_give_json_that_can_be_written_or_none(
    raw: bytes, cut: int, change: tuple[int, int]
) -> None:
    damaged = bytearray(raw[:cut])
    at, byte = change
    if at < len(damaged):
        damaged[at] = byte
    for protocol_type, protocol in (("connect", "sessioned"), ("consumer", "stream")):
        subscription = encode_subscription({"topics": [], "userData": bytes(damaged)})
        assignment = encode_assignment({"assignedPartitions": [], "userData": bytes(damaged)})
        for whole in (bytes(damaged), subscription, assignment):
            documents = (
                subscription_json(protocol_type, protocol, whole),
                assignment_json(protocol_type, protocol, whole),
            )
            json.dumps(documents, ensure_ascii=False).encode()
