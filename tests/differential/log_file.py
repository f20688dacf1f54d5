"""A log that made a difference, as a file: `make differential REPLAY=file` tries it again.

Topic ids are the cluster's own, so the file has those of its cluster, and a new cluster's are put
in their places.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from uuid import UUID

from tests.support.logs.logs import Event
from tests.support.logs.modern_records import Topic

Logs = Mapping[int, Sequence[Event]]


def write_logs(path: Path, kafka_version: str, topics: Sequence[Topic], logs: Logs) -> None:
    """Write logs by log partition."""
    content = {
        "kafka_version": kafka_version,
        "topics": {name: topic_id.hex for topic_id, name in topics},
        "logs": {str(p): [_to_json(event) for event in events] for p, events in logs.items()},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def read_kafka_version(path: Path) -> str:
    """The version of Kafka that answered differently."""
    return str(json.loads(path.read_text())["kafka_version"])


def read_logs(path: Path, topics: Sequence[Topic]) -> dict[int, list[Event]]:
    """Read logs by log partition, for a cluster with these topics."""
    content = json.loads(path.read_text())
    ids = {name: topic_id.bytes for topic_id, name in topics}
    renamed = {UUID(hex=topic_id).bytes: ids[name] for name, topic_id in content["topics"].items()}
    return {
        int(log_partition): [_from_json(event, renamed) for event in events]
        for log_partition, events in content["logs"].items()
    }


def _to_json(event: Event) -> dict[str, Any]:
    fields = asdict(event)
    for name in ("key", "value"):
        fields[name] = None if fields[name] is None else fields[name].hex()
    return fields


def _from_json(fields: dict[str, Any], renamed: Mapping[bytes, bytes]) -> Event:
    renamed_fields = dict(fields)
    for name in ("key", "value"):
        if renamed_fields[name] is not None:
            raw = bytes.fromhex(renamed_fields[name])
            for old, new in renamed.items():
                raw = raw.replace(old, new)
            renamed_fields[name] = raw
    return Event(**renamed_fields)
