"""Member bytes as JSON; those of Connect are what its own classes wrote."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.records.consumer_protocol import encode_assignment, encode_subscription
from coordinator_state.records.member_json import assignment_json, subscription_json
from tests.golden.record import read_golden

WRITTEN = {case["name"]: bytes.fromhex(case["raw"]) for case in read_golden("member_bytes")}
WORKER = {"url": "http://w1:8083/", "config-offset": 7}
LEADER = {"leader": "w1", "leader-url": "http://w1:8083/", "config-offset": 7}


class TestConnect:
    """ConnectProtocolCompatibilityTest: a worker of another protocol is understood, too."""

    def test_eager(self) -> None:
        assert subscription_json("connect", WRITTEN["connect subscription 0"]) == {
            "version": 0,
            **WORKER,
        }
        assert assignment_json("connect", WRITTEN["connect assignment 0"]) == {
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
        assert assignment_json("connect", raw) == assignment
        raw = WRITTEN[f"connect subscription {version}"]
        allocated = {"version": version, **WORKER, "allocation": assignment}
        assert subscription_json("connect", raw) == allocated
        raw = WRITTEN[f"connect subscription without assignment {version}"]
        assert (subscription_json("connect", raw) or {})["allocation"] is None

    def test_an_allocation_that_is_none_stays_as_it_is(self) -> None:
        raw = WRITTEN["connect subscription 1"][:-72] + b"\0"
        cut = raw[:27] + len(raw[31:]).to_bytes(4, "big") + raw[31:]
        assert isinstance((subscription_json("connect", cut) or {})["allocation"], str)


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
        assert subscription_json("consumer", whole) == {"version": 3, **subscription}
        assignment = {"assignedPartitions": [{"topic": "t", "partitions": [0]}], "userData": b"\1"}
        document = assignment_json("consumer", encode_assignment(assignment))
        assert document == {"version": 3, **assignment, "userData": "AQ=="}


def test_no_bytes_and_other_protocol_types_have_no_json() -> None:
    for protocol_type in ("", "consumer", "connect", "sr"):
        assert subscription_json(protocol_type, None) is None
        assert assignment_json(protocol_type, b"") is None
    raw = encode_subscription({"topics": [], "userData": None})
    assert subscription_json("sr", raw) is None
    assert assignment_json("sr", encode_assignment({"assignedPartitions": []})) is None


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
    for protocol_type in ("connect", "consumer"):
        subscription = encode_subscription({"topics": [], "userData": bytes(damaged)})
        assignment = encode_assignment({"assignedPartitions": [], "userData": bytes(damaged)})
        for whole in (bytes(damaged), subscription, assignment):
            documents = (
                subscription_json(protocol_type, whole),
                assignment_json(protocol_type, whole),
            )
            json.dumps(documents, ensure_ascii=False).encode()
