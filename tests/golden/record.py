"""Records the golden files: `python -m tests.golden.record`.

They stand in a folder per Kafka version, one record a line. `tests/unit/records/test_golden.py`
holds our codec to them, `tests/integration/test_golden.py` records them again and compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from streaming.jvm.jars import KAFKA_VERSION, kafka_jars
from tests.golden.cases import (
    GROUP_METADATA,
    KEYS,
    MUTATED_GROUP_METADATA,
    MUTATED_OFFSET_COMMITS,
    MUTATED_PROTOCOL_MESSAGES,
    OFFSET_COMMIT_KEYS,
    OFFSET_COMMITS,
    PROTOCOL_MESSAGES,
    PROTOCOL_VERSIONS,
    VERSIONS,
    mutations,
    offset_commit_key,
)
from tests.golden.group_records import GROUP_RECORDS, MUTATED_GROUP_RECORDS
from tests.golden.internal_topic_records import share_state_records, transaction_records
from tests.golden.java_program import run_java
from tests.golden.kafka_messages import KafkaMessages
from tests.golden.member_bytes import member_bytes

Json = dict[str, Any]

_FOLDER = Path(__file__).parent
_NEWEST_PROTOCOL_VERSION = PROTOCOL_VERSIONS[-1]


def golden_path(name: str, version: str = KAFKA_VERSION) -> Path:
    """Where the golden file of this name stands."""
    return _FOLDER / version / f"{name}.json"


def read_golden(name: str, version: str = KAFKA_VERSION) -> list[Json]:
    """The documents of a golden file."""
    documents: list[Json] = json.loads(golden_path(name, version).read_text(encoding="utf-8"))
    return documents


def golden_text(documents: Iterator[Json]) -> str:
    """Documents as a golden file holds them."""
    return "[\n" + ",\n".join(json.dumps(document) for document in documents) + "\n]\n"


def _record(
    kafka: KafkaMessages, name: str, record_type: int, key: Json, version: int, value: Json | None
) -> Json:
    raw_key, raw_value = kafka.serialize(record_type, key, version, value)
    return {
        "name": f"v{version} {name}",
        "key": raw_key.hex(),
        "value": None if raw_value is None else raw_value.hex(),
        "json": kafka.formatted(record_type, raw_key, raw_value),
    }


def _offset_commits(kafka: KafkaMessages) -> Iterator[Json]:
    """Types 0, of which 4.2 knows value v0 only, and 1; plain ones, odd keys and tombstones."""
    plain = offset_commit_key()
    for name, value in OFFSET_COMMITS.items():
        yield _record(kafka, f"legacy, {name}", 0, plain, 0, value)
        for version in VERSIONS:
            yield _record(kafka, name, 1, plain, version, value)
    for name, key in OFFSET_COMMIT_KEYS.items():
        yield _record(kafka, f"{name} key", 1, key, 4, OFFSET_COMMITS["plain"])
        for record_type in (0, 1):
            yield _record(
                kafka, f"tombstone of type {record_type}, {name} key", record_type, key, 0, None
            )


def _group_metadata(kafka: KafkaMessages) -> Iterator[Json]:
    for name, value in GROUP_METADATA.items():
        for version in VERSIONS:
            yield _record(kafka, name, 2, {"group": "g"}, version, value)
    yield _record(kafka, "tombstone", 2, {"group": "g"}, 0, None)


def _group_records(kafka: KafkaMessages) -> Iterator[Json]:
    for record_type, (key, values) in GROUP_RECORDS.items():
        for name, value in [*values.items(), ("tombstone", None)]:
            raw_key, raw_value = kafka.serialize(record_type, key, 0, value)
            yield {
                "name": f"type {record_type} {name}",
                "key": raw_key.hex(),
                "value": None if raw_value is None else raw_value.hex(),
                "json": kafka.converted(raw_key, raw_value),
            }


def _keys(kafka: KafkaMessages) -> Iterator[Json]:
    for record_type, key in KEYS:
        raw, _ = kafka.serialize(record_type, key)
        yield {"name": f"type {record_type}", "key": raw.hex(), "json": kafka.key_json(raw)}


def _consumer_protocol(kafka: KafkaMessages) -> Iterator[Json]:
    for message, cases in PROTOCOL_MESSAGES.items():
        for name, fields in cases.items():
            for version in PROTOCOL_VERSIONS:
                # Kafka's JSON reader does not leave these out by itself.
                known = {k: v for k, v in fields.items() if version > 0 or k != "ownedPartitions"}
                raw = kafka.serialize_protocol(message, version, known)
                yield {
                    "name": f"{message} v{version} {name}",
                    "message": message,
                    "raw": raw.hex(),
                    "json": kafka.protocol_json(message, _NEWEST_PROTOCOL_VERSION, raw),
                }


def _mutated_values(kafka: KafkaMessages) -> Iterator[Json]:
    """What Kafka makes of values that are not as it wrote them; `data` is null where it refuses."""
    records = [
        (record_type, raw_key, raw)
        for record_type, raw_key, whole in _whole_values(kafka)
        for raw in mutations(whole)
    ]
    lines = (f"{number}\t{key.hex()}\t{raw.hex()}\n" for number, key, raw in records)
    answers = run_java("ReadRecords", kafka_jars(), "".join(lines))
    for (record_type, _, raw), answer in zip(records, answers, strict=True):
        yield {"type": record_type, "value": raw.hex(), "json": json.loads(answer)}


def _whole_values(kafka: KafkaMessages) -> Iterator[tuple[int, bytes, bytes]]:
    """Record type, key and value of what is mutated."""
    cases: list[tuple[int, Json, int, Json]] = [
        *((1, offset_commit_key(), version, value) for version, value in MUTATED_OFFSET_COMMITS),
        *((2, {"group": "g"}, version, value) for version, value in MUTATED_GROUP_METADATA),
    ]
    for record_type, name in MUTATED_GROUP_RECORDS:
        group_key, values = GROUP_RECORDS[record_type]
        cases.append((record_type, group_key, 0, values[name]))
    for record_type, key, version, value in cases:
        raw_key, whole = kafka.serialize(record_type, key, version, value)
        assert whole is not None
        yield record_type, raw_key, whole


def _mutated_consumer_protocol(kafka: KafkaMessages) -> Iterator[Json]:
    for message, name in MUTATED_PROTOCOL_MESSAGES:
        fields = PROTOCOL_MESSAGES[message][name]
        for raw in mutations(kafka.serialize_protocol(message, _NEWEST_PROTOCOL_VERSION, fields)):
            answer = kafka.protocol_json(message, _NEWEST_PROTOCOL_VERSION, raw)
            yield {"message": message, "raw": raw.hex(), "json": answer}


GOLDEN: dict[str, Callable[[KafkaMessages], Iterator[Json]]] = {
    "offset_commit": _offset_commits,
    "group_metadata": _group_metadata,
    "group_records": _group_records,
    "keys": _keys,
    "consumer_protocol": _consumer_protocol,
    "mutated_values": _mutated_values,
    "mutated_consumer_protocol": _mutated_consumer_protocol,
    "member_bytes": lambda _kafka: member_bytes(),
    "transaction_records": lambda _kafka: transaction_records(),
    "share_state_records": lambda _kafka: share_state_records(),
}
"""How each golden file is recorded."""


def main() -> None:
    """Record every golden file."""
    with KafkaMessages() as kafka:
        for name, documents in GOLDEN.items():
            golden_path(name).parent.mkdir(exist_ok=True)
            golden_path(name).write_text(golden_text(documents(kafka)), encoding="utf-8")


if __name__ == "__main__":
    main()
