"""The progress of the load: the rows of `load_progress`, as their one writer keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from streaming.tables.clock import utc_now
from streaming.tables.moments import MOMENT, next_moment
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, TABLES, TOPIC_PROGRESS
from streaming.tables.topic_progress import Progress, TopicProgress
from streaming.tables.writer import Writer


@dataclass(slots=True, kw_only=True)
class LoadProgress(TopicProgress):
    """The progress of `__consumer_offsets`, and the versions of the tables of the snapshot.

    Before the first micro-batch, there are no rows, and every table is at version 0. `others` has
    the progress of other internal topics by their names.
    """

    topic: str = OFFSETS_TOPIC
    cluster_id: str
    semantics: Semantics
    release: Release = NEWEST_RELEASE
    table_versions: dict[str, int] = field(
        default_factory=lambda: {table.name: 0 for table in TABLES if table is not LOAD_PROGRESS}
    )
    others: dict[str, TopicProgress] = field(default_factory=dict)
    query_id: str = ""
    batch_id: int = -1
    reported_offset_total: int = 0

    @property
    def by_topic(self) -> dict[str, TopicProgress]:
        """The progress of every topic by its name."""
        return {self.topic: self, **self.others}

    @property
    def every_row(self) -> list[Progress]:
        """The progress of each log partition of every topic."""
        return [row for progress in self.by_topic.values() for row in progress.rows.values()]

    @classmethod
    def read(cls, reader: TableReader) -> LoadProgress:
        """The load progress of a snapshot."""
        progress = cls(
            cluster_id=reader.cluster_id,
            topic_id=reader.topic_id,
            semantics=Semantics(reader.semantics),
            release=reader.release,
        )
        for row in reader.read(LOAD_PROGRESS.name).to_pylist():
            progress.add_row(row)
            progress.query_id = row["query_id"]
            progress.batch_id = row["batch_id"]
            progress.clock_skew_ms = row.get("clock_skew_ms")
            progress.table_versions.update(dict(row["table_versions"]))
        progress.updated_at = max(progress.updated_at, reader.written_at)
        for row in reader.read(TOPIC_PROGRESS.name).to_pylist():
            topic = row["log_topic"]
            other_topic = progress.others.setdefault(
                topic, TopicProgress(topic=topic, topic_id=row["topic_id"])
            )
            other_topic.add_row(row)
        progress.reported_offset_total = sum(row.next_offset for row in progress.every_row)
        return progress

    def write(self, writer: Writer, *, now: datetime | None = None) -> None:
        """Write the rows, which commits a new snapshot.

        `now` is the current time by default. It is the moment of the snapshot, unless the clock was
        set back: moments always grow.

        Raises:
            WriterFenced: a newer writer has taken over.
            TablesUnavailable: the table cannot be written.
        """
        self.updated_at = next_moment(self.updated_at, now or utc_now())
        shared: dict[str, Any] = {
            "cluster_id": self.cluster_id,
            "semantics": self.semantics.value,
            "kafka_release": (
                str(self.release) if self.semantics is Semantics.COORDINATOR else None
            ),
            "writer_epoch": writer.epoch.number,
            "query_id": self.query_id,
            "batch_id": self.batch_id,
            "table_versions": sorted(self.table_versions.items()),
            "clock_skew_ms": self.clock_skew_ms,
        }
        rows = pa.Table.from_pylist(
            [row | shared for row in self.stored_rows()], schema=LOAD_PROGRESS.schema
        )
        writer.overwrite(LOAD_PROGRESS, rows, info={MOMENT: self.updated_at.isoformat()})

    def write_others(self, writer: Writer, now: datetime) -> None:
        """Write the rows of the other internal topics; `write` commits them with the snapshot.

        Raises:
            WriterFenced: a newer writer has taken over.
            TablesUnavailable: the table cannot be written.
        """
        for other_topic in self.others.values():
            other_topic.updated_at = now
        rows = [row for other_topic in self.others.values() for row in other_topic.stored_rows()]
        version = writer.overwrite(
            TOPIC_PROGRESS, pa.Table.from_pylist(rows, schema=TOPIC_PROGRESS.schema)
        )
        self.table_versions[TOPIC_PROGRESS.name] = version
