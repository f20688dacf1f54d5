"""How much of the log fits in a micro-batch, told from a few batches of what is to be read.

Plain commits are many and few of them stay, so a micro-batch may span a great many. What a
transaction committed, tombstones and the records of groups all stay and go through the memory of
the driver, the latter with their keys and values.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from coordinator_state.record import Record
from coordinator_state.record_batch import RecordBatch, read_record_batches
from coordinator_state.record_types import NO_PRODUCER_ID, OFFSET_COMMIT_TYPES
from streaming.source import MOST_RECORDS_PER_TRIGGER
from streaming.source.log_range import Fetcher

MOST_STAYING_BYTES: Final = 128 << 20
"""Of rows; transactions are replayed as Python objects, which take ten times that."""
# Up to so many are not worth a look.
_FEW_OFFSETS: Final = 100_000
_PLACES: Final = 2
_PLACE_BYTES: Final = 64 << 10
_ROW_BYTES: Final = 200
"""Of a row without key and value, as Arrow holds it."""


def offsets_that_fit(
    fetcher: Fetcher, positions: Mapping[int, int], left: Mapping[int, int], *, is_compacted: bool
) -> int:
    """How many offsets a micro-batch may span for its rows to fit in memory.

    A batch is looked at in some places of each log partition, so a log of few transactions in few
    places may be taken for one without.

    Args:
        fetcher: fetches the batches.
        positions: where each log partition is read on.
        left: how many offsets are to be read of each.
        is_compacted: whether plain commits are dropped that later ones supersede.
    """
    total = sum(left.values())
    if total <= _FEW_OFFSETS:
        return MOST_RECORDS_PER_TRIGGER
    records: Counter[int] = Counter()
    staying_bytes: Counter[int] = Counter()
    for log_partition, _, batch in sampled_batches(fetcher, positions, left):
        stays = [r for r in batch.records if not (is_compacted and _is_plain_commit(batch, r))]
        records[log_partition] += len(batch.records)
        staying_bytes[log_partition] += sum(
            _ROW_BYTES + len(r.key or b"") + len(r.value or b"") for r in stays
        )
    expected_bytes = sum(left[p] * staying_bytes[p] // n for p, n in records.items() if n)
    if not expected_bytes:
        return MOST_RECORDS_PER_TRIGGER
    return min(MOST_RECORDS_PER_TRIGGER, max(1, MOST_STAYING_BYTES * total // expected_bytes))


def sampled_batches(
    fetcher: Fetcher, positions: Mapping[int, int], left: Mapping[int, int]
) -> Iterator[tuple[int, int, RecordBatch]]:
    """Some batches, each with its log partition and the offset at which it was looked for."""
    for place in range(_PLACES):
        starts = {p: positions[p] + n * place // _PLACES for p, n in left.items() if n > 0}
        fetched = fetcher.fetch(
            starts,
            max_bytes=_PLACE_BYTES * len(starts),
            max_partition_bytes=_PLACE_BYTES,
            max_wait_ms=0,
        )
        for log_partition, answer in fetched.items():
            for batch in islice(read_record_batches(answer.records), 1):
                if isinstance(batch, RecordBatch):
                    yield log_partition, starts[log_partition], batch


def _is_plain_commit(batch: RecordBatch, record: Record) -> bool:
    is_alone = batch.producer_id == NO_PRODUCER_ID and not batch.is_transactional
    if not is_alone or record.value is None or record.key is None or len(record.key) < 2:
        return False
    (record_type,) = struct.unpack_from(">h", record.key)
    return record_type in OFFSET_COMMIT_TYPES
