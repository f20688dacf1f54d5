"""The loads of the internal topics other than `__consumer_offsets`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATE_CURRENT, TOPIC_PROGRESS


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLoad:
    """The sums of `topic_progress` over the log partitions of a topic.

    `current` is the number of log partitions in that state, `behind` the number of record offsets
    that are not read yet.
    """

    log_topic: str
    log_partitions: int
    current: int
    behind: int
    records_read: int
    records_applied: int
    records_ignored: int
    records_quarantined: int
    records_unaccounted: int

    @property
    def is_loaded(self) -> bool:
        """Whether `run` has loaded each log partition."""
        return self.current == self.log_partitions

    @property
    def is_read_whole(self) -> bool:
        """Whether the tables have every record up to the log ends, and none in quarantine."""
        return not self.behind and not self.records_quarantined


_SUMS = [name for name in TopicLoad.__dataclass_fields__ if name.startswith("records_")]


def topic_loads(reader: TableReader) -> Mapping[str, TopicLoad]:
    """The load of each topic that `run` follows, in the order of their names."""
    by_topic: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in reader.read(TOPIC_PROGRESS.name).to_pylist():
        by_topic[row["log_topic"]].append(row)
    return {
        topic: TopicLoad(
            log_topic=topic,
            log_partitions=len(rows),
            current=sum(row["state"] == STATE_CURRENT for row in rows),
            behind=sum(max(row["high_watermark"] - row["next_offset"], 0) for row in rows),
            **{name: sum(row[name] for row in rows) for name in _SUMS},
        )
        for topic, rows in sorted(by_topic.items())
    }
