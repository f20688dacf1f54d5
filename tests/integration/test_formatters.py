"""`decode` beside Kafka's own DumpLogSegments, field by field."""

from __future__ import annotations

import base64
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.records.consumer_protocol import (
    ASSIGNMENT,
    SUBSCRIPTION,
    decode_assignment,
    decode_subscription,
)
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.kafka_tools import run_kafka_tool
from tests.support.logs.logs import Event, segment
from tests.support.logs.random_logs import GROUPS, LEADER_CHANGE, TOPICS, RandomEvents

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

Json = dict[str, Any]

DRAWS = 400
_DUMPED = re.compile(
    r"^\| offset: (?P<offset>\d+) .*? headerKeys: \[\] "
    r"(?:key: (?P<key>.*?)(?: payload: (?P<payload>.*))?|endTxnMarker: (?P<marker>.*))$",
    re.MULTILINE,
)


def _drawn(seed: int) -> list[Event]:
    choose, draws = random.Random(seed), RandomEvents(group_ids=GROUPS, topics=TOPICS)
    events = [event for _ in range(DRAWS) for event in draws.draw(choose.randrange(1 << 32))]
    # DumpLogSegments ends with an exception at a control batch that is no end of a transaction, and
    # at a record without a key.
    return [
        event
        for event in events
        if event.control_type != LEADER_CHANGE
        and (event.control_type is not None or event.key is not None)
    ]


def test_dump_log_says_the_same_of_records_of_every_type(tmp_path: Path) -> None:
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(segment(_drawn(7))[0])
    assert _dumped_alike(log).keys() == {*range(9), *range(10, 18), *range(19, 24)}


def test_dump_log_reads_a_simulated_log(tmp_path: Path) -> None:
    """The file's name is a number, as in the docs: the tool refuses other names."""
    log = tmp_path / "0.log"
    arguments = ("--seed", "7", "--groups", "20", "--records", "2000", "--file", str(log))
    call("simulate", *arguments, "--compact", "--commit-interval", "1m")
    assert _dumped_alike(log).keys() == {1, 2, 3, 5, 6, 7, 8}


def _dumped_alike(log: Path) -> Counter[int]:
    """Hold what DumpLogSegments prints to what we decode; counts the records by their type."""
    records = json_lines(call("decode", "--file", str(log)))
    ours = {record["recordOffset"]: record for record in records}
    dumped = {
        int(line["offset"]): line
        for line in _DUMPED.finditer(
            run_kafka_tool(
                "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(log)
            )
        )
    }

    assert dumped.keys() == ours.keys()
    compared: Counter[int] = Counter()
    for offset, line in dumped.items():
        record = ours[offset]
        if line["marker"] is not None:
            expected = f"{record['control']} coordinatorEpoch: {record['coordinatorEpoch']}"
            assert line["marker"] == expected
        elif line["payload"] is None:
            # It reads no newer value behind a key of type 0, and what else it cannot read
            # we cannot either.
            assert "error" in record or record["key"]["type"] == 0
        else:
            _assert_same(line["key"], line["payload"], record)
            compared[record["key"]["type"]] += 1
    return compared


def _assert_same(key: str, payload: str, record: Json) -> None:
    assert json.loads(key) == {**record["key"], "type": str(record["key"]["type"])}
    value = record["value"]
    if value is None:
        assert payload == "<DELETE>"
        return
    if value["data"].get("protocolType") == "consumer":
        for member in value["data"]["members"]:
            _decode_member(member)
    assert json.loads(payload) == {**value, "version": str(value["version"])}


def _decode_member(member: Json) -> None:
    """As DumpLogSegments shows the bytes of members of the consumer protocol: what is in them."""
    for name, schema, decode in (
        ("subscription", SUBSCRIPTION, decode_subscription),
        ("assignment", ASSIGNMENT, decode_assignment),
    ):
        raw = base64.b64decode(member[name])
        version = int.from_bytes(raw[:2], "big")
        known = {field.name for field in schema.fields if field.is_in(version)}
        fields = {k: v for k, v in decode(raw).items() if k in known}
        member[name] = {k: list(v) if isinstance(v, tuple) else v for k, v in fields.items()}
