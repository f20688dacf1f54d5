"""Reads of the samples in `log_offsets`, for given partitions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.lag import UNKNOWN, Int64s, LogHistories, LogSamples
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOG_OFFSETS

_OFFSETS = ("log_start_offset", "log_end_offset", "last_stable_offset", "end_markers")
_FEW_TOPICS = 100
"""Up to this number, the samples of other topics are not read."""
_ALL_BITS = 0xFFFF_FFFF
_COLUMNS = ("topic", "partition", "sampled_at", "state", "topic_id", *_OFFSETS)


@dataclass(frozen=True, slots=True)
class Logs:
    """Distinct partitions, each with a number; `of_rows` has the number for each source row."""

    topics: pa.Array
    codes: Int64s
    of_rows: Int64s

    @classmethod
    def of(cls, rows: pa.Table) -> Logs:
        """The distinct partitions of rows."""
        topics = pc.unique(rows["topic"])
        codes, of_rows = np.unique(_codes(topics, rows), return_inverse=True)
        return cls(topics, codes, of_rows)

    def __len__(self) -> int:
        return self.codes.size

    @property
    def keys(self) -> tuple[pa.Array, pa.Array]:
        """The topic and the number of each partition."""
        partitions = (self.codes & _ALL_BITS).astype(np.uint32).view(np.int32)
        return self.topics.take(pa.array(self.codes >> 32)), pa.array(partitions)

    def numbers(self, rows: pa.Table) -> Int64s:
        """The number of each row's partition; `UNKNOWN` for other partitions."""
        if not len(self):
            return np.full(rows.num_rows, UNKNOWN)
        codes = _codes(self.topics, rows)
        numbers = np.searchsorted(self.codes, codes)
        is_known = self.codes[np.minimum(numbers, self.codes.size - 1)] == codes
        return np.where(is_known & (codes >= 0), numbers, UNKNOWN)

    def histories(
        self, reader: TableReader, *, since: datetime, until: datetime, of_all: bool = True
    ) -> LogHistories:
        """The samples of the partitions between two times.

        `sampled_at_ms` of the result is that of all partitions, or if not `of_all`, only of these.
        """
        if not len(self):
            return LogHistories(_as_samples(LOG_OFFSETS.schema.empty_table(), self.codes), 0)
        during: list[tuple[str, str, Any]]
        during = [("sampled_at", ">=", since), ("sampled_at", "<=", until)]
        days = [("day", ">=", since.date()), ("day", "<=", until.date())]
        if not of_all and len(self.topics) <= _FEW_TOPICS:
            during.append(("topic", "in", self.topics.to_pylist()))
        rows = reader.read(LOG_OFFSETS.name, _COLUMNS, [*days, *during])
        log = self.numbers(rows)
        samples = _as_samples(rows, log)
        order = np.lexsort((samples.sampled_at_ms, log))
        newest = int(samples.sampled_at_ms.max()) if len(samples) else None
        return LogHistories(samples.only(order[log[order] != UNKNOWN]), len(self), newest)


def _codes(topics: pa.Array, rows: pa.Table) -> Int64s:
    """Topic and partition as one number; negative for other topics."""
    topic = pc.fill_null(pc.index_in(rows["topic"], topics), UNKNOWN).to_numpy()
    # A committed offset may have any partition number, also a negative one.
    partition = rows["partition"].to_numpy().astype(np.int64) & _ALL_BITS
    return (topic.astype(np.int64) << 32) + partition


def _as_samples(rows: pa.Table, log: Int64s) -> LogSamples:
    return LogSamples(
        log=log,
        sampled_at_ms=epoch_ms(rows["sampled_at"]),
        **{name: _texts(rows[name]) for name in ("state", "topic_id")},
        **{
            name: pc.fill_null(rows[name], UNKNOWN).to_numpy().astype(np.int64) for name in _OFFSETS
        },
    )


def to_ms(times: Any) -> Any:
    """Times as milliseconds since the epoch, as Arrow's integers; null stays null."""
    return pc.cast(pc.cast(times, pa.timestamp("ms", "UTC"), safe=False), pa.int64())


def epoch_ms(times: pa.ChunkedArray) -> Any:
    """Times as milliseconds since the epoch, without null."""
    return to_ms(times).to_numpy()


def _texts(column: pa.ChunkedArray) -> Any:
    """A column of few distinct texts as objects; equal texts share one object."""
    encoded = column.combine_chunks().dictionary_encode()
    values = np.array([*encoded.dictionary.to_pylist(), None], object)
    return values[pc.fill_null(encoded.indices, len(values) - 1).to_numpy(zero_copy_only=False)]


def null_if_unknown(values: Any) -> pa.Array:
    """A column of integers."""
    return pa.array(values, pa.int64(), mask=values == UNKNOWN)
