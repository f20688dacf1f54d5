"""`decode` beside Kafka's own tools that print coordinator records, field by field."""

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
from tests.differential.random_round import LOG_PARTITIONS, RoundLog, rules_of
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.clients.installed_command import run_command
from tests.support.clients.kafka_tools import console_consumer_records, run_kafka_tool
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


def _decoded(*arguments: str) -> list[Json]:
    done = run_command("decode", *arguments)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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


@pytest.mark.parametrize(
    "options", [(), ("--compact", "--commit-interval", "1m"), ("--semantics", "scala")]
)
def test_dump_log_reads_a_simulated_log(tmp_path: Path, options: tuple[str, ...]) -> None:
    """The file's name is a number, as the docs have it: what else it is called it refuses."""
    log = tmp_path / "0.log"
    arguments = ("--seed", "7", "--groups", "20", "--records", "2000", "--file", str(log))
    simulated = run_command("simulate", *arguments, *options)
    assert simulated.returncode == 0, simulated.stderr
    found = _dumped_alike(log)
    of_consumer_groups = set() if "scala" in options else {3, 5, 6, 7, 8}
    assert found.keys() == {1, 2} | of_consumer_groups


def _dumped_alike(log: Path) -> Counter[int]:
    """Hold what DumpLogSegments prints to what we decode; counts the records by their type."""
    ours = {record["recordOffset"]: record for record in _decoded("--file", str(log))}
    dumped = {
        int(found["offset"]): found
        for found in _DUMPED.finditer(
            run_kafka_tool(
                "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(log)
            )
        )
    }

    assert dumped.keys() == ours.keys()
    compared: Counter[int] = Counter()
    for offset, found in dumped.items():
        record = ours[offset]
        if found["marker"] is not None:
            expected = f"{record['control']} coordinatorEpoch: {record['coordinatorEpoch']}"
            assert found["marker"] == expected
        elif found["payload"] is None:
            # It reads no newer value behind a key of type 0, and what else it cannot read
            # we cannot either.
            assert "error" in record or record["key"]["type"] == 0
        else:
            _assert_same(found["key"], found["payload"], record)
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


FORMATTERS = {
    "OffsetsMessageFormatter": {0, 1},
    "GroupMetadataMessageFormatter": {2},
    "ShareGroupMessageFormatter": {10, 11, 12, 13, 14, 15},
}


def test_the_console_consumer_says_the_same_of_records_in_a_topic(
    fresh_broker: FreshBroker,
) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    broker.stop()
    log_partition = 0
    choose = random.Random(8)
    seeds = tuple(choose.randrange(1 << 32) for _ in range(60))
    events = RoundLog(seeds=seeds).events(log_partition, TOPICS, rules_of(broker.version))
    for number in range(LOG_PARTITIONS):
        broker.replace_log(number, segment(events)[0] if number == log_partition else b"")
    broker.start()
    where = ("--bootstrap-servers", broker.bootstrap_servers, "--log-partition", "0")
    records = [record for record in _decoded(*where) if "key" in record]

    for formatter, types in FORMATTERS.items():
        printed = console_consumer_records(
            broker.bootstrap_servers, "__consumer_offsets", log_partition, formatter
        )
        expected = [
            {"key": record["key"], "value": record["value"]}
            for record in records
            if record["key"]["type"] in types
        ]
        assert expected
        assert printed == expected
