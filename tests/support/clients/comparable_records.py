"""The records that a script left in a log, so that those of two coordinators can be compared."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

from coordinator_state.errors import DecodeError
from coordinator_state.log.record_batch import Record, RecordBatch, read_record_batches
from coordinator_state.records.consumer_protocol import decode_assignment
from coordinator_state.records.serde import decode_key, decode_value
from tests.support.clients.scripted_clients import Names

_WITHOUT_ORDER: Final = frozenset({1, 5, 7, 8})
_TIMES: Final = ("commitTimestamp", "currentStateTimestamp", "expireTimestamp")
_LEADERS: Final = ("leader",)
_VERSION_BYTES: Final = 2


def records_of(log: bytes, names: Names, *, of_one_clock: bool = False) -> list[Any]:
    """The records of a log: ids named, times left out, and what has no order put in one.

    `of_one_clock` are the logs of two coordinators that are told the time, and whose ids are the
    same: their times stay, and who leads a group, which a hash map decides, is left out instead.
    """
    comparable: list[Any] = []
    producers: dict[int, str] = {}
    for batch in read_record_batches(log):
        assert isinstance(batch, RecordBatch)
        name = ""
        if batch.is_transactional:
            name = producers.setdefault(batch.producer_id, f"producer {len(producers)}")
        if batch.is_control:
            comparable += [(name, "marker", record.key) for record in batch.records]
            continue
        written_by = (name, batch.base_sequence)
        records = [(written_by, *_decoded(r, names, of_one_clock)) for r in batch.records]
        # Offsets and members are written in the order of a hash map.
        for record_type, run in groupby(records, key=lambda record: record[1]):
            ordered = list(run)
            comparable += sorted(ordered, key=repr) if record_type in _WITHOUT_ORDER else ordered
    return comparable


def assignment_of(raw: bytes) -> Any:
    """A member's assignment without the order of its topics; the bytes if they are none."""
    try:
        fields = decode_assignment(raw)
    except DecodeError:
        return raw
    topics = sorted((t["topic"], sorted(t["partitions"])) for t in fields["assignedPartitions"])
    return raw[:_VERSION_BYTES], topics, fields["userData"]


def _decoded(record: Record, names: Names, of_one_clock: bool) -> tuple[Any, ...]:
    decoded = decode_key(record.key or b"")
    fields_of_key = tuple(sorted(names.named(decoded.fields).items()))
    if record.value is None:
        return decoded.record_type.id, fields_of_key, None
    decoded_value = decode_value(decoded.record_type, record.value)
    fields = dict(decoded_value.fields)
    for name in _LEADERS if of_one_clock else _TIMES:
        if name in fields:
            fields[name] = fields[name] not in (None, -1)
    if "metadataHash" in fields:
        fields["metadataHash"] = fields["metadataHash"] != 0
    for name in ("topicPartitions", "assignedPartitions", "partitionsPendingRevocation"):
        if name in fields:
            topics = ((str(t["topicId"]), sorted(t["partitions"])) for t in fields[name])
            fields[name] = sorted(topics)
    if "members" in fields:
        members = [
            {**member, "assignment": assignment_of(member["assignment"])}
            for member in fields["members"]
        ]
        sorted_members = (tuple(sorted(member.items())) for member in members)
        fields["members"] = tuple(sorted(map(names.named, sorted_members), key=repr))
    shown = tuple((name, names.named(item)) for name, item in sorted(fields.items()))
    return decoded.record_type.id, fields_of_key, decoded_value.version, shown
