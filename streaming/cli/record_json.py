"""Records as JSON documents in the shape of Kafka's own message formatters.

`{"key": {"type": …, "data": …}, "value": {"version": …, "data": …}}`, plus fields that the
formatters lack: the record offset, the producer, and whether the record is part of a transaction.
A value whose type is known but not modelled has `raw` (hex) instead of `data`. A marker has
`control`. A record that cannot be decoded has `error` and its raw bytes. No data makes this module
raise.

Source: tools/src/main/java/org/apache/kafka/tools/consumer/CoordinatorRecordMessageFormatter.java
at 4.4.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coordinator_state.errors import DecodeError
from coordinator_state.log.log_decoder import OffsetRange
from coordinator_state.log.record import Record
from coordinator_state.log.record_batch import CorruptBatch, RecordBatch, read_record_batches
from coordinator_state.records.internal_topics import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from coordinator_state.records.record_json import (
    Document,
    RecordTypes,
    error_json,
    record_json,
)
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.share_state_records import (
    SHARE_STATE_RECORD_TYPES,
)
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from coordinator_state.wire.primitives import read_int16, read_int32
from streaming.errors import ConfigurationError

if TYPE_CHECKING:
    from streaming.kafka.fetch import LogClient

RECORD_TYPES_OF_TOPIC: Final[Mapping[str, RecordTypes]] = {
    OFFSETS_TOPIC: RECORD_TYPES,
    TRANSACTION_STATE_TOPIC: TRANSACTION_RECORD_TYPES,
    SHARE_STATE_TOPIC: SHARE_STATE_RECORD_TYPES,
}
"""The record types of each internal topic."""

CONTROL_TYPES = {0: "ABORT", 1: "COMMIT"}

NO_VALUE = ("-", "null")
"""The words for a null value in a line of hex."""
END_OF_LOG = 2**63 - 1


def lines_json(text: str, record_types: RecordTypes = RECORD_TYPES) -> Iterator[Document]:
    """Decode lines of hex, `KEY [VALUE]`; no value, `-` or `null` is a tombstone."""
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            key, value = bytes_of(words[0]), bytes_of(words[1] if len(words) > 1 else None)
        except ValueError as error:
            yield {"line": number, "error": str(error)}
            continue
        yield {"line": number} | (
            {"error": "a line has at most a key and a value"}
            if len(words) > 2
            else record_json(key, value, record_types)
        )


def bytes_of(text: str | None) -> bytes | None:
    """Bytes from hex; None, `-` and `null` are a null value.

    Raises:
        ValueError: the text is not hex.
    """
    if text is None or text in NO_VALUE:
        return None
    try:
        return bytes.fromhex(text.removeprefix("0x"))
    except ValueError as error:
        raise ValueError(f"{text!r} is not hex") from error


def record_set_json(
    buffer: bytes,
    record_types: RecordTypes = RECORD_TYPES,
    *,
    from_offset: int = 0,
    to_offset: int = END_OF_LOG,
) -> Iterator[Document]:
    """Decode every record and marker of a log segment or fetch response, in log order."""
    for batch in read_record_batches(buffer):
        for offset, document in _batch_json(batch, record_types):
            if from_offset <= offset < to_offset:
                yield {"recordOffset": offset} | document


def log_json(
    log: LogClient,
    log_partition: int,
    record_types: RecordTypes = RECORD_TYPES,
    *,
    from_offset: int = 0,
    to_offset: int = END_OF_LOG,
) -> Iterator[Document]:
    """Decode every record and marker of a log partition, up to its current high watermark.

    Raises:
        ConfigurationError: the log partition does not exist.
    """
    ends = log.high_watermarks()
    if log_partition not in ends:
        raise ConfigurationError(
            f"there is no log partition {log_partition}; {log.topic} has {len(ends)}"
        )
    to_offset = min(to_offset, ends[log_partition])
    fetch_offset = max(from_offset, log.earliest_offsets()[log_partition])
    while fetch_offset < to_offset:
        fetched = log.fetch({log_partition: fetch_offset}).get(log_partition)
        if fetched is None:
            continue
        wanted = OffsetRange(
            log_partition=log_partition, from_offset=fetch_offset, to_offset=to_offset
        )
        next_offset = fetch_offset
        for batch in read_record_batches(fetched.records):
            if batch.last_offset is not None:
                next_offset = wanted.next_offset(batch, next_offset)
            elif next_offset > fetch_offset:
                # Damaged bytes: fetch again from them, as that response may hold more batches.
                break
            else:
                batch = replace(batch, base_offset=fetch_offset)
                next_offset = fetch_offset + 1
            for offset, document in _batch_json(batch, record_types):
                if fetch_offset <= offset < to_offset:
                    yield {"recordOffset": offset} | document
        if next_offset == fetch_offset:
            # Compaction removed all records between here and the high watermark.
            return
        fetch_offset = next_offset


def _batch_json(
    batch: RecordBatch | CorruptBatch, record_types: RecordTypes
) -> Iterator[tuple[int, Document]]:
    if isinstance(batch, CorruptBatch):
        yield batch.base_offset, error_json(batch.reason, None, batch.raw)
        return
    shared = {
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "isTransactional": batch.is_transactional,
    }
    for record in batch.records:
        body = (
            _control_json(record)
            if batch.is_control
            else record_json(record.key, record.value, record_types)
        )
        yield record.record_offset, {"timestamp": record.timestamp_ms} | shared | body
    if batch.remainder is not None:
        rest = batch.remainder
        yield rest.base_offset, shared | error_json(rest.reason, None, rest.raw)


def _control_json(record: Record) -> Document:
    """A transaction marker: int16 version and type in the key, the epoch in the value.

    Source: common/record/ControlRecordType.java and EndTransactionMarker.java at 4.2.0.
    """
    try:
        control_type, _ = read_int16(memoryview(record.key or b""), 2)
        document: Document = {"control": CONTROL_TYPES.get(control_type, control_type)}
        if control_type in CONTROL_TYPES:
            epoch, _ = read_int32(memoryview(record.value or b""), 2)
            document["coordinatorEpoch"] = epoch
        return document
    except DecodeError as error:
        return error_json(f"control record: {error}", record.key, record.value)
