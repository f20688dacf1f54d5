"""Records the golden files again: `python -m tests.golden.record`.

They stand in a folder per Kafka version, one record a line. Each file has its own input: Kafka
writes the bytes of a record from its JSON, and reads the JSON of damaged bytes. To add a record,
add a line with its name and its JSON. For a new version of Kafka, rename the folder first.

`tests/unit/records/test_golden.py` holds our codec to the files, `tests/integration/test_golden.py`
records them again and compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from streaming.jvm.jars import KAFKA_VERSION, kafka_jars
from tests.golden.java_program import run_java
from tests.golden.kafka_messages import Coordinator, KafkaMessages
from tests.support.brokers.jar_sets import client_jars

Json = dict[str, Any]

_FOLDER = Path(__file__).parent
_NEWEST_PROTOCOL_VERSION = 3
_VERSION_BYTES = 2


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


def _serialized(kafka: KafkaMessages, document: Json) -> tuple[bytes, bytes | None]:
    key, value = document["json"]["key"], document["json"]["value"]
    if value is None:
        return kafka.serialize(key["type"], key["data"])
    return kafka.serialize(key["type"], key["data"], value["version"], value["data"])


def _records(name: str, kafka: KafkaMessages, *, is_formatted: bool) -> Iterator[Json]:
    """Records as Kafka's formatter prints them, or as a broker reads those without formatter."""
    for document in read_golden(name):
        key, value = _serialized(kafka, document)
        record_type = document["json"]["key"]["type"]
        yield {
            "name": document["name"],
            "key": key.hex(),
            "value": None if value is None else value.hex(),
            "json": (
                kafka.formatted(record_type, key, value)
                if is_formatted
                else kafka.converted(key, value)
            ),
        }


def _internal_topic_records(
    name: str, coordinator: Coordinator, _kafka: KafkaMessages
) -> Iterator[Json]:
    """Records of another internal topic, as a broker reads them and as the formatter prints."""
    with KafkaMessages(coordinator=coordinator) as kafka:
        for record in _records(name, kafka, is_formatted=False):
            key, value = _serialized(kafka, record)
            record_type = record["json"]["key"]["type"]
            yield {**record, "formatted": kafka.formatted(record_type, key, value)}


def _keys(kafka: KafkaMessages) -> Iterator[Json]:
    for document in read_golden("keys"):
        raw, _ = kafka.serialize(document["json"]["type"], document["json"]["data"])
        yield {"name": document["name"], "key": raw.hex(), "json": kafka.key_json(raw)}


def _consumer_protocol(kafka: KafkaMessages) -> Iterator[Json]:
    for document in read_golden("consumer_protocol"):
        message, fields = document["message"], document["json"]
        version = int.from_bytes(bytes.fromhex(document["raw"])[:_VERSION_BYTES], "big")
        # Kafka's JSON reader does not leave these out by itself.
        known = {k: v for k, v in fields.items() if version > 0 or k != "ownedPartitions"}
        raw = kafka.serialize_protocol(message, version, known)
        yield {
            "name": document["name"],
            "message": message,
            "raw": raw.hex(),
            "json": kafka.protocol_json(message, _NEWEST_PROTOCOL_VERSION, raw),
        }


def _mutated_values(_kafka: KafkaMessages) -> Iterator[Json]:
    """What Kafka makes of damaged values; `data` is null if Kafka refuses them."""
    keys = {document["json"]["type"]: document["key"] for document in read_golden("keys")}
    documents = read_golden("mutated_values")
    lines = (f"{d['type']}\t{keys[d['type']]}\t{d['value']}\n" for d in documents)
    answers = run_java("ReadRecords", kafka_jars(), "".join(lines))
    for document, answer in zip(documents, answers, strict=True):
        yield {**document, "json": json.loads(answer)}


def _mutated_consumer_protocol(kafka: KafkaMessages) -> Iterator[Json]:
    for document in read_golden("mutated_consumer_protocol"):
        message, raw = document["message"], bytes.fromhex(document["raw"])
        answer = kafka.protocol_json(message, _NEWEST_PROTOCOL_VERSION, raw)
        yield {**document, "json": answer}


def _member_bytes(_kafka: KafkaMessages) -> Iterator[Json]:
    """Member bytes of Kafka Connect, as its own classes write them."""
    for line in run_java("MemberBytes", [*kafka_jars(), *client_jars()]):
        name, raw = line.split("\t")
        yield {"name": name, "raw": raw}


GOLDEN: dict[str, Callable[[KafkaMessages], Iterator[Json]]] = {
    "offset_commit": partial(_records, "offset_commit", is_formatted=True),
    "group_metadata": partial(_records, "group_metadata", is_formatted=True),
    "group_records": partial(_records, "group_records", is_formatted=False),
    "keys": _keys,
    "consumer_protocol": _consumer_protocol,
    "mutated_values": _mutated_values,
    "mutated_consumer_protocol": _mutated_consumer_protocol,
    "member_bytes": _member_bytes,
    "transaction_records": partial(_internal_topic_records, "transaction_records", "transaction"),
    "share_state_records": partial(_internal_topic_records, "share_state_records", "share"),
}
"""How each golden file is recorded."""


def main() -> None:
    """Record every golden file."""
    with KafkaMessages() as kafka:
        for name, documents in GOLDEN.items():
            text = golden_text(documents(kafka))
            golden_path(name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
