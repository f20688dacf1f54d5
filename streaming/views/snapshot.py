"""All tables and views of one snapshot; each view is computed at most once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import rows_of
from coordinator_state.insight.group_status import StatusRules
from coordinator_state.insight.sql_literal import sql_literal
from streaming.lag.evaluation import Evaluation
from streaming.lag.freshness import Freshness, notice_of, tables_known_to
from streaming.lag.group_verdicts import silent_members
from streaming.lag.paces import KnownPaces
from streaming.lag.recent_commits import KEY
from streaming.lag.unread_logs import unread_logs
from streaming.tables.as_of import AsOf
from streaming.tables.load_state import loading_notice
from streaming.tables.once import once
from streaming.tables.reader import TableReader
from streaming.views.definitions import SELECTS, VIEWS, in_duckdb
from streaming.views.topics_view import OF_LAGS, topics_of

if TYPE_CHECKING:
    from streaming.views.query import Queried

Row = dict[str, Any]

_COMPUTED: Final = {
    "group_lag": "evaluation",
    "group_status": "evaluation",
    "topics": "topics",
}
"""The cached attribute of `Snapshot` behind each computed view."""


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """The data by which another process opens the same snapshot."""

    tables: str
    as_of: AsOf
    at: datetime
    is_newest: bool
    status_rules: StatusRules

    def open(self, views: Mapping[str, pa.Table]) -> Snapshot:
        """Open the snapshot; `views` are views that are already computed.

        Raises:
            ConfigurationError: the tables cannot be read.
        """
        reader = TableReader(self.tables, as_of=self.as_of)
        return Snapshot(
            reader,
            at=self.at,
            is_newest=self.is_newest,
            status_rules=self.status_rules,
            views=views,
        )


class Snapshot:
    """The tables as of one micro-batch, and the views computed from them.

    Args:
        reader: the tables.
        at: the end of all ages; by default the moment of the reader.
        is_newest: whether this was the newest snapshot when another process opened it.
        status_rules: the limits of statuses; by default those of the last run.
        views: views that are already computed.
        group_ids: the groups of the computed views; all groups if None.
        known: what earlier evaluations have read.
        evaluation: the lag and status of all groups, if somebody has computed them.
    """

    def __init__(
        self,
        reader: TableReader,
        *,
        at: datetime | None = None,
        is_newest: bool = False,
        status_rules: StatusRules | None = None,
        views: Mapping[str, pa.Table] | None = None,
        group_ids: Collection[str] | None = None,
        known: KnownPaces | None = None,
        evaluation: Evaluation | None = None,
    ) -> None:
        self.lock = RLock()
        self.spent_s = 0.0
        self.reader = reader
        self._group_ids = group_ids
        self._known = known
        if evaluation is not None:
            self.__dict__["evaluation"] = evaluation
        self.at = at or reader.moment
        is_now = reader.is_newest and reader.is_consistent and self.at == reader.moment
        self._is_newest = is_newest or is_now
        self.status_rules = status_rules or reader.status_rules
        self._views: Mapping[str, Callable[[], Queried]] = {
            "group_lag": lambda: self.evaluation.queried_lags(),
            "group_status": lambda: self.evaluation.statuses,
            "topics": lambda: self.topics,
            **{name: partial(self._selected, name) for name in SELECTS},
            "expiring_offsets": self.expiring_offsets,
        }
        self._found: dict[str, Queried] = dict(views or {})

    @property
    def place(self) -> SnapshotPlace:
        """The data by which another process opens this snapshot."""
        tables = self.reader.tables
        if "://" not in tables:
            tables = str(Path(tables).absolute())
        return SnapshotPlace(tables, self.reader.as_of, self.at, self._is_newest, self.status_rules)

    def computed(self, names: Collection[str]) -> dict[str, pa.Table]:
        """The views among `names` that are already computed, and those that they select from."""
        if "partition_status" in names:
            names = {*names, "group_lag"}
        return {
            name: view
            for name, attribute in _COMPUTED.items()
            if name in names
            and attribute in self.__dict__
            # Another process reads rows that `run` keeps by itself.
            and not (attribute == "evaluation" and self.evaluation.is_kept)
            and isinstance(view := self.queried(name), pa.Table)
        }

    @once
    def evaluation(self) -> Evaluation:
        """The lag and status of all groups as columns."""
        groups, rules = self._group_ids, self.status_rules
        kept = None
        if self._is_newest:
            kept = Evaluation.kept(self.reader, at=self.at, group_ids=groups, rules=rules)
        return kept or Evaluation.of(
            self.reader, at=self.at, group_ids=groups, rules=rules, known=self._known
        )

    @property
    def lags(self) -> pa.Table:
        """The rows of `group_lag`."""
        return self.evaluation.lags

    def groups(self, group_ids: Sequence[str]) -> dict[str, Row]:
        """The rows of `group_status` of those groups that exist, by group, in this order."""
        statuses = self.evaluation.statuses
        places = pc.index_in(pa.array(group_ids, pa.string()), statuses["group_id"])
        return {row["group_id"]: row for row in rows_of(statuses.take(places.drop_null()))}

    @once
    def known_until(self) -> datetime | None:
        """The time up to which the tables have every commit; None if unknown."""
        return tables_known_to(self.reader, self.at)

    @once
    def freshness(self) -> Freshness:
        """When the tables were last written."""
        return Freshness.of(self.reader, self.at)

    @once
    def notice(self) -> str | None:
        """Sentences about stale tables and log partitions that are not current; None if neither."""
        loading = loading_notice(self.reader.load_states, self.reader.log_partitions)
        stale = notice_of(self.freshness, self.known_until, self.status_rules)
        notices = (stale, loading and f"{loading.capitalize()}.")
        return " ".join(filter(None, notices)) or None

    @once
    def silent(self) -> Mapping[str, Sequence[Row]]:
        """The assigned partitions of each group that have no row in `group_lag`."""
        lags = self.evaluation.lag_columns([*KEY, "member_id"])
        return silent_members(self.reader, self.at, None, lags)

    @once
    def unread(self) -> pa.Table:
        """The sampled partitions that have no row in `group_lag`."""
        return unread_logs(self.reader, self.at, self.evaluation.lag_columns(KEY))

    @once
    def topics(self) -> pa.Table:
        """The view `topics`."""
        return topics_of(self.evaluation.lag_columns(OF_LAGS), self.unread, self.silent)

    def expiring_offsets(
        self, retention_ms: int | None = None, *, group_id: str | None = None
    ) -> pa.Table:
        """The view `expiring_offsets`: the soonest first, offsets that never expire last.

        Args:
            retention_ms: overrides the cluster's `offsets.retention.minutes`.
            group_id: only this group.
        """
        from streaming.views.query import asking

        if retention_ms is None:
            retention_ms = self.reader.offsets_retention_ms
        select = in_duckdb(SELECTS["expiring_offsets"], retention_ms)
        where = "" if group_id is None else f"WHERE group_id = {sql_literal(group_id)}"
        order = "ORDER BY expires_at NULLS LAST, group_id, topic, partition"
        # No broker deletes offsets that are outside Kafka.
        with asking(self.reader.of_kafka().dataset) as ask:
            return ask(f"FROM ({select}) {where} {order}").cast(VIEWS["expiring_offsets"])

    def queried(self, name: str) -> Queried:
        """A table or view for an engine that selects rows and columns itself."""
        if name not in self._found:
            view = self._views.get(name)
            self._found[name] = self.reader.dataset(name) if view is None else view()
        return self._found[name]

    def _selected(self, name: str) -> pa.Table:
        from streaming.views.query import query

        return query(SELECTS[name], self).cast(VIEWS[name])
