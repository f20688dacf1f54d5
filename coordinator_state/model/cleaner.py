"""The log cleaner, which compacts a log partition.

The cleaner keeps the last record of each key and no records of aborted transactions. The first pass
that finds a tombstone as the last record of its key gives its batch a delete horizon:
`delete.retention.ms` after that pass. Passes after the horizon remove the tombstone. Markers are
removed in the same way: the first pass that finds no data of the transaction sets the horizon.

The last batch of the log, and the last batch of each producer that may still write, stay as empty
batches: they keep the offset and the producer's state. The cleaner never cleans past the start of
the first open transaction.

Source: storage/src/main/java/org/apache/kafka/storage/internals/log/Cleaner.java and
CleanedTransactionMetadata.java, and clients/src/main/java/org/apache/kafka/common/record/
MemoryRecords.java (`filterTo`) at 4.2.0; KIP-534.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from coordinator_state.log.record import Record, read_control_key
from coordinator_state.log.record_batch import RecordBatch
from coordinator_state.log.record_batch_writer import write_record_batch
from coordinator_state.records.record_types import NO_PRODUCER_ID
from coordinator_state.replay.offsets import CONTROL_TYPE_ABORT

DAY_MS: Final = 24 * 60 * 60 * 1000


def clean(
    batches: Sequence[RecordBatch],
    *,
    upper_bound: int,
    now_ms: int,
    delete_retention_ms: int = DAY_MS,
    producer_id_expiration_ms: int = DAY_MS,
) -> list[bytes]:
    """Run one pass over a log.

    Args:
        batches: the whole log, intact.
        upper_bound: the record offset below which batches are cleaned. The start of the first open
            transaction is a second bound.
        now_ms: the time of the pass.
        delete_retention_ms: `delete.retention.ms` of the topic.
        producer_id_expiration_ms: how long a producer may still write after its last batch.

    Returns:
        All batches of the log after the pass.
    """
    outcomes = _Outcomes.of(batches)
    bound = min(upper_bound, outcomes.first_unstable_offset)
    cleaned = [batch for batch in batches if batch.last_offset < bound]
    last_of_key = {
        record.key: record.record_offset
        for batch in cleaned
        if not batch.is_control and batch.base_offset not in outcomes.aborted
        for record in batch.records
    }
    cleaner = _Pass(
        outcomes=outcomes,
        last_of_key=last_of_key,
        last_of_producers=_last_of_producers(batches, now_ms - producer_id_expiration_ms),
        last_offset=cleaned[-1].last_offset if cleaned else -1,
        now_ms=now_ms,
        delete_retention_ms=delete_retention_ms,
    )
    return [
        *(raw for batch in cleaned for raw in cleaner.clean(batch)),
        *(_written(batch, batch.records) for batch in batches[len(cleaned) :]),
    ]


@dataclass(frozen=True, slots=True)
class _Outcomes:
    """The base offsets of aborted batches, and the start of the first open transaction."""

    aborted: frozenset[int]
    first_unstable_offset: int

    @classmethod
    def of(cls, batches: Sequence[RecordBatch]) -> _Outcomes:
        open_batches: dict[int, list[RecordBatch]] = {}
        aborted: set[int] = set()
        for batch in batches:
            if not batch.is_transactional:
                continue
            if not batch.is_control:
                open_batches.setdefault(batch.producer_id, []).append(batch)
            elif batch.records:
                ended = open_batches.pop(batch.producer_id, [])
                _version, control_type = read_control_key(batch.records[0].key or b"")
                if control_type == CONTROL_TYPE_ABORT:
                    aborted.update(data.base_offset for data in ended)
        # A pass leaves empty batches only of transactions that have ended.
        unstable = [b.base_offset for data in open_batches.values() for b in data if b.records]
        end = batches[-1].last_offset + 1 if batches else 0
        return cls(frozenset(aborted), min(unstable, default=end))


@dataclass(slots=True, kw_only=True)
class _Pass:
    outcomes: _Outcomes
    last_of_key: dict[bytes | None, int]
    last_of_producers: dict[int, int]
    last_offset: int
    now_ms: int
    delete_retention_ms: int
    _seen: set[int] = field(default_factory=set)
    """Producers with a data batch since their last marker in this pass."""

    def clean(self, batch: RecordBatch) -> Iterator[bytes]:
        """Yield the batch with the records that it keeps, or nothing if it is removed."""
        is_removable = self._is_removable(batch)
        horizon_ms = batch.base_timestamp_ms if batch.has_delete_horizon else None
        is_past_horizon = horizon_ms is not None and horizon_ms <= self.now_ms
        if batch.is_control:
            kept = () if is_removable and is_past_horizon else batch.records
            needs_horizon = is_removable
        else:
            kept = (
                ()
                if is_removable
                else tuple(r for r in batch.records if self._keeps(r, is_past_horizon))
            )
            needs_horizon = any(record.value is None for record in kept)
        if kept:
            if needs_horizon and horizon_ms is None:
                horizon_ms = self.now_ms + self.delete_retention_ms
            yield _written(batch, kept, horizon_ms)
        elif (
            batch.last_offset == self.last_offset
            or self.last_of_producers.get(batch.producer_id) == batch.last_offset
        ):
            yield _written(batch, ())

    def _is_removable(self, batch: RecordBatch) -> bool:
        """Whether a batch is aborted data, or a marker whose transaction has no data left."""
        if not batch.is_transactional:
            return False
        if batch.is_control:
            was_seen = batch.producer_id in self._seen
            self._seen.discard(batch.producer_id)
            return not was_seen
        self._seen.add(batch.producer_id)
        return batch.base_offset in self.outcomes.aborted

    def _keeps(self, record: Record, is_past_horizon: bool) -> bool:
        if record.record_offset < self.last_of_key[record.key]:
            return False
        return record.value is not None or not is_past_horizon


def _last_of_producers(batches: Sequence[RecordBatch], since_ms: int) -> dict[int, int]:
    """The last offset of each active producer's last data batch, or of its marker without data."""
    last: dict[int, RecordBatch] = {}
    active: set[int] = set()
    for batch in batches:
        if batch.producer_id == NO_PRODUCER_ID:
            continue
        if batch.max_timestamp_ms > since_ms:
            active.add(batch.producer_id)
        known = last.get(batch.producer_id)
        # A new epoch replaces the older state; with KIP-890 a marker can start the epoch.
        is_new_epoch = known is None or known.producer_epoch != batch.producer_epoch
        if is_new_epoch or known is None or known.is_control or not batch.is_control:
            last[batch.producer_id] = batch
    return {p: batch.last_offset for p, batch in last.items() if p in active}


def _written(batch: RecordBatch, records: Sequence[Record], horizon_ms: int | None = None) -> bytes:
    if horizon_ms is None and batch.has_delete_horizon and records:
        horizon_ms = batch.base_timestamp_ms
    return write_record_batch(
        batch.base_offset,
        [(r.record_offset - batch.base_offset, r.timestamp_ms, r.key, r.value) for r in records],
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        is_log_append_time=batch.is_log_append_time,
        compression=batch.compression,
        leader_epoch=batch.leader_epoch,
        delete_horizon_ms=horizon_ms,
        last_offset_delta=batch.last_offset - batch.base_offset,
        max_timestamp_ms=batch.max_timestamp_ms,
    )
