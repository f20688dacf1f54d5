"""Samples that are not yet written to a table of history.

A write that reported a failure may still have been committed. Its rows are therefore kept unchanged
and written again with the same write number, which is committed at most once. Later samples are
queued behind it, up to a limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar

import pyarrow as pa

from streaming.lag.sample_runs import Sample
from streaming.tables.schemas import LOG_OFFSETS, Table
from streaming.tables.writer import Writer

S = TypeVar("S")

MOST_QUEUED: Final = 100_000
"""In samples, about 40 MB. The write that is retried may have as many. One round of samples may
have more, if groups read more partitions."""


class _Write(NamedTuple):
    number: int
    rows: pa.Table


@dataclass(slots=True)
class UnwrittenSamples(Generic[S]):
    """A queue of samples in order of time, until they are written.

    Args:
        table: the table to write.
        rows_of: converts samples to rows of the table.
    """

    table: Table
    rows_of: Callable[[Collection[S]], pa.Table]
    _queued: deque[S] = field(default_factory=deque)
    _in_progress: _Write | None = None

    def add(self, samples: Collection[S]) -> int:
        """Queue a round of samples, and return the number of older samples that were dropped.

        A full queue drops the oldest, but none of the new round.
        """
        self._queued.extend(samples)
        dropped = max(0, len(self._queued) - max(MOST_QUEUED, len(samples)))
        for _ in range(dropped):
            self._queued.popleft()
        return dropped

    def write(self, writer: Writer) -> None:
        """Write all samples, each once.

        Raises:
            WriterFenced: a newer writer has taken over.
            TablesUnavailable: the table cannot be written; the next call retries.
        """
        while self._in_progress or self._queued:
            if self._in_progress is None:
                self._in_progress = _Write(writer.next_number(), self.rows_of(self._queued))
                self._queued.clear()
            writer.append(self.table, self._in_progress.rows, number=self._in_progress.number)
            self._in_progress = None


def rows_of(samples: Collection[Sample]) -> pa.Table:
    """Samples as rows of `log_offsets`."""
    return pa.Table.from_pylist(
        [
            {
                "topic": log_offsets.topic,
                "partition": log_offsets.partition,
                "sampled_at": sampled_at,
                "state": log_offsets.state,
                "topic_id": log_offsets.topic_id,
                "log_start_offset": log_offsets.log_start_offset,
                "log_end_offset": log_offsets.log_end_offset,
                "last_stable_offset": log_offsets.last_stable_offset,
                "end_markers": log_offsets.end_markers,
                "day": sampled_at.date(),
            }
            for sampled_at, log_offsets in samples
        ],
        schema=LOG_OFFSETS.schema,
    )
