"""Samples on their way into `log_offsets`.

A write that reported a failure may have been committed all the same. Its rows are therefore kept as
they are and written again under the same write number, which a commit carries at most once. Later
samples wait behind it, up to a bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from streaming.lag.sample_runs import Sample
from streaming.tables.schemas import LOG_OFFSETS
from streaming.tables.writer import Writer

MOST_WAITING: Final = 100_000
"""Samples, about 40 MB. As many may be in the write that is retried."""


class _Write(NamedTuple):
    number: int
    rows: pa.Table


@dataclass(slots=True)
class UnwrittenSamples:
    """Samples in the order of time, until they are written."""

    _waiting: deque[Sample] = field(default_factory=deque)
    _begun: _Write | None = None

    def add(self, samples: Collection[Sample]) -> int:
        """Take samples in; return how many were dropped, the oldest ones, since too many wait."""
        self._waiting.extend(samples)
        dropped = max(0, len(self._waiting) - MOST_WAITING)
        for _ in range(dropped):
            self._waiting.popleft()
        return dropped

    def write(self, writer: Writer) -> None:
        """Write all of them, each once.

        Raises:
            WriterFenced: a newer writer has taken over.
            TablesUnavailable: the table cannot be written; the next call tries again.
        """
        while self._begun or self._waiting:
            if self._begun is None:
                self._begun = _Write(writer.next_number(), rows_of(self._waiting))
                self._waiting.clear()
            writer.append(LOG_OFFSETS, self._begun.rows, number=self._begun.number)
            self._begun = None


def rows_of(samples: Collection[Sample]) -> pa.Table:
    """Samples as rows of `log_offsets`."""
    return pa.Table.from_pylist(
        [
            {
                "topic": found.topic,
                "partition": found.partition,
                "sampled_at": sampled_at,
                "state": found.state,
                "topic_id": found.topic_id,
                "log_start_offset": found.log_start_offset,
                "log_end_offset": found.log_end_offset,
                "last_stable_offset": found.last_stable_offset,
                "end_markers": found.end_markers,
                "day": sampled_at.date(),
            }
            for sampled_at, found in samples
        ],
        schema=LOG_OFFSETS.schema,
    )
