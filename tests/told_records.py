"""The records that a script left in a log, so that those of two coordinators can be compared."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from coordinator_state.record_batch import RecordBatch, read_record_batches
from coordinator_state.serde import decode_key, decode_value
from tests.told import Told

_WITHOUT_ORDER: Final = frozenset({1, 5, 7, 8})


def records_of(log: bytes, told: Told) -> list[Any]:
    """The records of a log: ids named, times left out, and what has no order put in one."""
    found: list[Any] = []
    producers: dict[int, str] = {}
    for batch in read_record_batches(log):
        assert isinstance(batch, RecordBatch)
        name = ""
        if batch.is_transactional:
            name = producers.setdefault(batch.producer_id, f"producer {len(producers)}")
        if batch.is_control:
            found += [(name, "marker", record.key) for record in batch.records]
            continue
        written_by = (name, batch.base_sequence)
        records = [(written_by, *_decoded(r.key or b"", r.value, told)) for r in batch.records]
        # Offsets and members are written in the order of a hash map.
        for record_type, run in groupby(records, key=lambda record: record[1]):
            ordered = list(run)
            found += sorted(ordered, key=repr) if record_type in _WITHOUT_ORDER else ordered
    return found


def _decoded(key: bytes, value: bytes | None, told: Told) -> tuple[Any, ...]:
    decoded = decode_key(key)
    fields_of_key = tuple(sorted(told.named(decoded.fields).items()))
    if value is None:
        return decoded.record_type.id, fields_of_key, None
    decoded_value = decode_value(decoded.record_type, value)
    told_fields = dict(decoded_value.fields)
    for name in ("commitTimestamp", "currentStateTimestamp", "expireTimestamp"):
        if name in told_fields:
            told_fields[name] = told_fields[name] != -1
    if "metadataHash" in told_fields:
        told_fields["metadataHash"] = told_fields["metadataHash"] != 0
    for name in ("topicPartitions", "assignedPartitions", "partitionsPendingRevocation"):
        if name in told_fields:
            topics = ((str(t["topicId"]), sorted(t["partitions"])) for t in told_fields[name])
            told_fields[name] = sorted(topics)
    if "members" in told_fields:
        members = [tuple(sorted(member.items())) for member in told_fields["members"]]
        told_fields["members"] = tuple(sorted(map(told.named, members)))
    shown = tuple((name, told.named(item)) for name, item in sorted(told_fields.items()))
    return decoded.record_type.id, fields_of_key, decoded_value.version, shown
