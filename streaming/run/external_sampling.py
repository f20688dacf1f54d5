"""The offsets of external groups, written to `external_offsets`.

At each interval a thread reads the checkpoint of each external group. It appends the offsets of the
newest batch, and of batches whose offsets went back. A failure is logged once; the next interval
retries it. It affects neither the query nor other groups.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from streaming.errors import ConfigurationError, WriterFenced, first_line
from streaming.external.external_group import ExternalGroup
from streaming.external.spark_checkpoint import SparkBatch, SparkCheckpoint
from streaming.kafka.partition_offsets import TopicPartition
from streaming.lag.unwritten_samples import UnwrittenSamples
from streaming.tables.clock import utc_now
from streaming.tables.reader import TableReader
from streaming.tables.schemas import EXTERNAL_OFFSETS
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)

_NEVER: Final = datetime.min.replace(tzinfo=timezone.utc)
_NEXT: Final = timedelta(microseconds=1)

Row = dict[str, Any]


@dataclass(slots=True)
class _Followed:
    """An external group, its last batch, and the time of its newest row."""

    group_id: str
    checkpoint: SparkCheckpoint
    last: SparkBatch | None = None
    committed_at: datetime = _NEVER
    day: date = date.min
    fault: str = ""

    def new_rows(self, now: datetime) -> Iterator[Row]:
        """The rows of new batches, or again those of the last one on a later day."""
        is_first = self.last is None
        batches = self.checkpoint.batches_since(self.last)
        for batch in batches:
            before = {} if self.last is None else self.last.offsets
            is_back = any(offset < before.get(at, offset) for at, offset in batch.offsets.items())
            # Files may have equal times, times of a copy, and times of another clock.
            later = self.committed_at + _NEXT if self.last is not None else _NEVER
            done_at = min(batch.done_at, now)
            # Of a rewind by hand, only the time at which it is seen is known.
            self.committed_at = now if is_back and done_at < later else max(done_at, later)
            self.last = batch
            # On the first read, write all batches that Spark still has.
            if is_first or is_back or batch is batches[-1]:
                yield from self._rows(batch, now.date(), before)
        if not batches and self.last is not None and self.day < now.date():
            yield from self._rows(self.last, now.date(), {}, is_repeat=True)

    def _rows(
        self,
        batch: SparkBatch,
        day: date,
        offsets_before: Mapping[TopicPartition, int],
        *,
        is_repeat: bool = False,
    ) -> Iterator[Row]:
        self.day = day
        for at, offset in batch.offsets.items():
            before = offsets_before.get(at)
            yield {
                "group_id": self.group_id,
                "topic": at.topic,
                "partition": at.partition,
                "committed_offset": offset,
                "commit_timestamp": self.committed_at,
                "offset_before": before if before is not None and before > offset else None,
                "query_id": batch.query_id,
                "batch_id": batch.batch_id,
                "is_repeat": is_repeat,
                "day": day,
            }


class ExternalSampling:
    """Reads the checkpoints of external groups for one tables folder.

    Args:
        writer: the writer of the tables.
        groups: the external groups.
    """

    def __init__(self, writer: Writer, groups: Collection[ExternalGroup]) -> None:
        self._writer = writer
        self._followed = [_Followed(group, SparkCheckpoint(at)) for group, at in groups]
        self._unwritten = UnwrittenSamples[Row](EXTERNAL_OFFSETS, _table_of)
        self._is_begun = False

    @property
    def places(self) -> frozenset[TopicPartition]:
        """The partitions that the groups read: their logs are sampled, too."""
        batches = (followed.last for followed in self._followed if followed.last is not None)
        return frozenset(at for batch in batches for at in batch.offsets)

    def sample(self) -> None:
        """Read each checkpoint, and append the new rows.

        Raises:
            WriterFenced: a newer writer has taken over.
        """
        try:
            if not self._is_begun:
                self._continue()
                self._is_begun = True
            now = utc_now()
            rows = [row for followed in self._followed for row in self._rows_of(followed, now)]
            self._unwritten.add(rows)
            self._unwritten.write(self._writer)
        except WriterFenced:
            raise
        except ConfigurationError as error:
            logger.warning(
                "cannot write external offsets: %(error)s; retrying", {"error": first_line(error)}
            )

    def _rows_of(self, followed: _Followed, now: datetime) -> Sequence[Row]:
        try:
            rows = list(followed.new_rows(now))
        except ConfigurationError as error:
            fault = first_line(error)
            if fault != followed.fault:
                logger.warning(
                    "external group %(group_id)s: %(error)s; retrying",
                    {"group_id": followed.group_id, "error": fault},
                )
            followed.fault = fault
            return ()
        if followed.fault:
            logger.info(
                "external group %(group_id)s: its checkpoint can be read",
                {"group_id": followed.group_id},
            )
        followed.fault = ""
        return rows

    def _continue(self) -> None:
        """Continue after the newest rows in the table, so that none is written twice."""
        reader = TableReader(self._writer.tables)
        for followed in self._followed:
            of_group = [("group_id", "=", followed.group_id)]
            times = reader.read(EXTERNAL_OFFSETS.name, ["commit_timestamp", "day"], of_group)
            if not times.num_rows:
                continue
            followed.committed_at = pc.max(times["commit_timestamp"]).as_py()
            followed.day = pc.max(times["day"]).as_py()
            newest = [*of_group, ("commit_timestamp", "=", followed.committed_at)]
            rows = reader.read(EXTERNAL_OFFSETS.name, filters=newest).to_pylist()
            followed.last = SparkBatch(
                rows[0]["query_id"],
                rows[0]["batch_id"],
                followed.committed_at,
                {
                    TopicPartition(row["topic"], row["partition"]): row["committed_offset"]
                    for row in rows
                },
            )


def _table_of(rows: Collection[Row]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), EXTERNAL_OFFSETS.schema)
