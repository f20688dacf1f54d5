"""The log cleaner: what compaction leaves of a log partition.

Of each key the record with the greatest offset stays, and nothing of aborted transactions. A
tombstone goes `delete.retention.ms` after a pass that found it the last of its key, and a marker
so long after a pass that found nothing left of its transaction: the first such pass writes that
time into the batch, as its delete horizon. The last batch of a producer that may still write, and
the last one of all, stay without records, for their place and their producer. Nothing is cleaned
from the first open transaction on.

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
    """One pass over a log: its batches below an offset cleaned, the others as they are.

    Args:
        batches: the whole log, intact.
        upper_bound: an offset; at most what is below the first open transaction is cleaned.
        now_ms: the time of the pass.
        delete_retention_ms: `delete.retention.ms` of the topic.
        producer_id_expiration_ms: how long a producer may still write after its last batch.
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
    """Base offsets of the batches of aborted transactions, and where the first open one begins."""

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
        # An empty batch is what a pass left of a transaction that has ended.
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
    """Producers of whose transaction a batch was seen since their last marker."""

    def clean(self, batch: RecordBatch) -> Iterator[bytes]:
        """The batch with the records that stay; nothing where it goes."""
        can_go = self._can_go(batch)
        horizon_ms = batch.base_timestamp_ms if batch.has_delete_horizon else None
        is_over = horizon_ms is not None and horizon_ms <= self.now_ms
        if batch.is_control:
            kept = () if can_go and is_over else batch.records
            waits = can_go
        else:
            kept = () if can_go else tuple(r for r in batch.records if self._stays(r, is_over))
            waits = any(record.value is None for record in kept)
        if kept:
            if waits and horizon_ms is None:
                horizon_ms = self.now_ms + self.delete_retention_ms
            yield _written(batch, kept, horizon_ms)
        elif (
            batch.last_offset == self.last_offset
            or self.last_of_producers.get(batch.producer_id) == batch.last_offset
        ):
            yield _written(batch, ())

    def _can_go(self, batch: RecordBatch) -> bool:
        """Whether a batch is of an aborted transaction, or the marker of one that is gone."""
        if not batch.is_transactional:
            return False
        if batch.is_control:
            was_seen = batch.producer_id in self._seen
            self._seen.discard(batch.producer_id)
            return not was_seen
        self._seen.add(batch.producer_id)
        return batch.base_offset in self.outcomes.aborted

    def _stays(self, record: Record, is_over: bool) -> bool:
        if record.record_offset < self.last_of_key[record.key]:
            return False
        return record.value is not None or not is_over


def _last_of_producers(batches: Sequence[RecordBatch], since_ms: int) -> dict[int, int]:
    """The last data of each producer that may still write; of one without data, its marker."""
    last: dict[int, RecordBatch] = {}
    active: set[int] = set()
    for batch in batches:
        if batch.producer_id == NO_PRODUCER_ID:
            continue
        if batch.max_timestamp_ms > since_ms:
            active.add(batch.producer_id)
        known = last.get(batch.producer_id)
        # With another epoch nothing is known of what came before (KIP-890 begins one by a marker).
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
