"""The interface of the engines, which execute micro-batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, TypeVar

from coordinator_state.apply.counts import RecordCounts
from coordinator_state.apply.state import ApplyContext
from coordinator_state.log.commit_sampling import HistoryResolution
from coordinator_state.replay.group_replay import AskTopicNames
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from streaming.engine.progress import Report
from streaming.tables.load_progress import LoadProgress
from streaming.tables.schemas import DEFAULT_OFFSETS_RETENTION_MS, HISTORY_ALL, HISTORY_OFF
from streaming.tables.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = TypeVar("Rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyRules:
    """The rules of all micro-batches of a query.

    `release` has the rules of group records under `coordinator` semantics.
    `topic_names` returns known topic names by topic id. `offsets_retention_ms` is the brokers'
    `offsets.retention.minutes`; events use it to tell that an offset expired.
    """

    semantics: Semantics
    release: Release
    history_mode: str
    history_resolution: HistoryResolution = field(default_factory=HistoryResolution)
    topic_names: AskTopicNames = lambda _topic_ids: {}
    offsets_retention_ms: int = DEFAULT_OFFSETS_RETENTION_MS

    @property
    def with_history(self) -> bool:
        """False for the history mode `off`."""
        return self.history_mode != HISTORY_OFF

    def context(self, topic_names: Mapping[str, str]) -> ApplyContext:
        """The rules of one micro-batch, with the known topic names by topic id."""
        return ApplyContext(
            semantics=self.semantics,
            release=self.release,
            with_history=self.with_history,
            offsets_retention_ms=self.offsets_retention_ms,
            topic_names=topic_names,
        )

    @property
    def sampled_resolution(self) -> HistoryResolution | None:
        """The resolution of commits that may be dropped before they are applied; None for none."""
        return None if self.history_mode == HISTORY_ALL else self.history_resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The rows of a topic in a micro-batch, which are written to all tables except the progress.

    Attributes:
        reports: the ranges that were applied; a reload of `__consumer_offsets` has one for all
            that it read.
        replaced: the log partitions whose reload is complete and replaces their rows.
        counts: the rows of the micro-batch that were not applied before, by outcome.
        newest_timestamps: the newest record timestamp of each log partition.
        rows: the number of written rows by table.
    """

    reports: Sequence[Report]
    replaced: Collection[int] = ()
    counts: RecordCounts = field(default_factory=RecordCounts)
    newest_timestamps: Mapping[int, datetime] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)


Outcomes = dict[str, Outcome]
"""By topic."""


@dataclass(slots=True)
class KnownTopics:
    """Topic names by topic id; a topic keeps its name after it was deleted.

    `unnamed` are the topic ids without a known name; each micro-batch asks for them again.
    """

    ask: AskTopicNames
    names: dict[str, str] = field(default_factory=dict)
    unnamed: set[str] = field(default_factory=set)

    def naming(self, topic_ids: Set[str]) -> Mapping[str, str]:
        """Ask for the names of these topic ids, and return all known names."""
        wanted = (topic_ids | self.unnamed) - self.names.keys()
        self.names.update(self.ask(wanted) if wanted else {})
        self.unnamed = wanted - self.names.keys()
        return self.names


class Engine(Protocol[Rows]):
    """Plans micro-batches and writes them, one after the other, to the tables of one folder.

    `Rows` are the rows of a micro-batch as the engine takes them. Before the first micro-batch no
    table has rows after the newest snapshot.
    """

    @property
    def writer(self) -> Writer:
        """The writer of the folder."""

    def rows_of(self, batch: DataFrame) -> Rows:
        """The rows of a micro-batch that a query hands over (`PACKED_ROW_SCHEMA`)."""

    def apply(self, rows: Rows, progress: LoadProgress) -> Outcomes:
        """Apply a micro-batch to all tables except `load_progress` and `topic_progress`.

        The result always has `__consumer_offsets`, and other topics with rows of the source.

        This sets the new versions of the tables, and the high watermarks of reloading log
        partitions, in `progress`.

        Raises:
            ConfigurationError: the micro-batch starts after the next offset of a log partition.
            WriterFenced: a newer writer has taken over.
            TablesUnavailable: a table cannot be read or written.
        """
