"""The offsets at the end of a log that hold no record for a `read_committed` consumer.

A consumer commits the offset after the last record that it received. Transaction markers, records
of aborted transactions and the gaps and empty batches that compaction leaves take offsets, but a
consumer does not receive them.

Source: clients/src/main/java/org/apache/kafka/clients/consumer/internals/CompletedFetch.java
(`nextFetchedRecord`) at 4.2.0.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator_state.errors import CorruptRecordBatch, DecodeError
from coordinator_state.log.record import read_control_key
from coordinator_state.log.record_batch import (
    CorruptBatch,
    RecordBatch,
    read_record_batches,
)

_ABORT = 0


class LogTail:
    """The offsets from a consumer's position to the end of a log, as they are fetched.

    Attributes:
        end: the end of the log.
        next_offset: the offset to fetch next.
        offsets: the number of offsets without a record. It is 0 if there is a record, and None
            until the end is reached.
    """

    def __init__(self, first: int, end: int) -> None:
        self._first, self.end = first, end
        self.next_offset = first
        self.offsets: int | None = None

    def take(self, records: bytes, aborted: Iterable[tuple[int, int]]) -> None:
        """Read the next fetched bytes.

        Args:
            records: the bytes, with whole batches.
            aborted: the producer id and the first offset of each aborted transaction in them.

        Raises:
            DecodeError: a damaged batch.
        """
        begins = sorted(aborted, key=lambda transaction: transaction[1])
        aborting: set[int] = set()
        for batch in read_record_batches(records):
            if isinstance(batch, CorruptBatch):
                raise CorruptRecordBatch(batch.reason, position=0)
            while begins and begins[0][1] <= batch.last_offset:
                aborting.add(begins.pop(0)[0])
            if batch.is_control:
                if _is_abort(batch):
                    aborting.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborting):
                if batch.remainder is not None:
                    raise CorruptRecordBatch(batch.remainder.reason, position=0)
                if any(self._first <= record.record_offset < self.end for record in batch.records):
                    self.offsets = 0
                    return
            self.next_offset = max(self.next_offset, batch.last_offset + 1)
        if self.next_offset >= self.end:
            self.take_nothing()

    def take_nothing(self) -> None:
        """Note that the log has no more batches."""
        self.offsets = self.end - self._first


def _is_abort(batch: RecordBatch) -> bool:
    keys = (record.key for record in batch.records if record.key is not None)
    try:
        return any(read_control_key(key)[1] == _ABORT for key in keys)
    except DecodeError:
        return False
