"""The rows that the tables must have for a log to which nobody writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

from coordinator_state.errors import DecodeError, UnknownRecordType
from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.records.record_types import OFFSET_COMMIT_TYPES
from coordinator_state.records.serde import decode_key
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from streaming.tables.schemas import OFFSET_COMMITS
from tests.kills.killed_tables import is_kept
from tests.support.tables.loader_tables import differences, rows_of


def differences_of_loaders(tables: str, loaders: dict[int, ReferenceLoader]) -> list[str]:
    """Differences between the tables and the reference loaders."""
    return differences(rows_of(TableReader(tables)), loaders, without_topic_names=True)


_Log = list[RecordBatch]


def logs_at_rest(broker: EmbeddedBroker) -> Iterator[tuple[int, _Log]]:
    """The record batches of each log partition, read from the files of the broker."""
    for folder in broker.log_dir.glob("__consumer_offsets-*"):
        raw = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        batches = list(read_record_batches(raw))
        sound = [batch for batch in batches if isinstance(batch, RecordBatch)]
        if len(sound) < len(batches):
            raise RuntimeError(f"{folder.name} cannot be read")
        yield int(folder.name.rpartition("-")[2]), sound


def loaded(batches: Iterable[RecordBatch]) -> ReferenceLoader:
    loader = ReferenceLoader(Semantics.COORDINATOR)
    loader.load(batches)
    return loader


def places_of_history(
    logs: dict[int, _Log], loaders: dict[int, ReferenceLoader]
) -> set[tuple[int, int]]:
    """The places of commits and tombstones with a known outcome, except on deleted days."""
    waiting = {
        (p, record.record_offset)
        for p, loader in loaders.items()
        for of_producer in loader.pending.values()
        for record in of_producer.values()
    }
    return {
        (p, record.record_offset)
        for p, batches in logs.items()
        for batch in batches
        if not batch.is_control
        for record in batch.records
        if is_kept(datetime.fromtimestamp(record.timestamp_ms / 1000, timezone.utc).date())
        and _is_of_offset(record.key)
    } - waiting


def _is_of_offset(key: bytes | None) -> bool:
    try:
        return key is not None and decode_key(key).record_type.id in OFFSET_COMMIT_TYPES
    except (DecodeError, UnknownRecordType):
        return False


def differences_of_history(tables: str, expected: set[tuple[int, int]]) -> Iterator[str]:
    rows = TableReader(tables).read(OFFSET_COMMITS.name, ["log_partition", "record_offset", "day"])
    kept = (row for row in rows.to_pylist() if is_kept(row["day"]))
    places = {(row["log_partition"], row["record_offset"]) for row in kept}
    yield from (f"history lacks {place}" for place in sorted(expected - places))
    yield from (f"history has {place} from nowhere" for place in sorted(places - expected))
