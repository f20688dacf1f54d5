"""The rows of evaluations in `group_lag`, `group_status` and `status_changes`.

Only rows that differ from the kept ones are written. First the changes of status are appended to
`status_changes`. After a crash between two writes, the next start takes the statuses from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import (
    NOWHERE,
    TIMESTAMP,
    columns_of,
    nullable,
    positions,
    with_columns,
)
from coordinator_state.insight.group_status import Status, StatusRules
from streaming.lag.evaluation import KEPT_FOR, Evaluation
from streaming.lag.judged_changes import KNOWN, JudgedChanges, judged_changes, kept_schema
from streaming.lag.status_history import standing
from streaming.tables.creation import properties_of, set_properties
from streaming.tables.evaluation_gaps import (
    BEGINNING,
    EvaluationGap,
    gaps_of,
    gaps_text,
    last_evaluation,
    with_gap,
    without_contradicted,
)
from streaming.tables.properties import limits_of
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    GROUP_LAG,
    GROUP_STATUS,
    JUDGED_TABLES,
    PROPERTY_EVALUATED_AT,
    PROPERTY_NOT_EVALUATED,
    PROPERTY_STATUS_RULES,
    PROPERTY_STATUS_RULES_SINCE,
    STATUS_CHANGES,
    Table,
)
from streaming.tables.status_rules import status_rules_text
from streaming.tables.writer import Writer

_REWRITTEN_AFTER: Final = timedelta(minutes=1)
_MANY_ROWS: Final = 100_000
_PARTS: Final = 5
"""Of many rows, one of so many parts is written in an evaluation because it only became older."""
_DELETES: Final = "is_deleted"
_OF_CHANGE: Final = [*GROUP_LAG.key, "status_before", "status_after", "changed_at"]
_NEVER: Final = datetime.max.replace(tzinfo=timezone.utc)


@dataclass(slots=True)
class StatusEvaluation:
    """Keeps `group_lag`, `group_status` and `status_changes` of one tables folder."""

    writer: Writer
    interval_s: float = 0.0
    """The time between two evaluations."""
    _kept: dict[Table, pa.Table] = field(default_factory=dict)
    _limits: StatusRules | None = None
    _last_at: datetime = BEGINNING
    """The moment of the last evaluation that was written."""
    _latest_at: datetime = BEGINNING
    """The greatest such moment: later than the last one if the clock was set back."""
    _ahead_at: datetime = _NEVER
    """The first change that was recorded while the clock was ahead, and whose time is to come."""
    _noted_at: datetime = BEGINNING
    """The moment of the last evaluation without groups that a property has."""
    _gaps: Sequence[EvaluationGap] = ()

    def keep(self, evaluation: Evaluation) -> None:
        """Write the differences between an evaluation and the tables.

        Raises:
            WriterFenced: a newer writer has taken over.
            ConfigurationError: a table cannot be read or written.
        """
        if evaluation.at < self._last_at or evaluation.at >= self._ahead_at:
            # The clock was ahead, and is right now, or has come to the changes of that time.
            self._kept = {}
        try:
            if not self._kept:
                self._restore(evaluation.at)
            is_after_gap = self._record_gap(evaluation.at)
            self._write(evaluation, is_after_gap=is_after_gap)
            self._note_empty(evaluation)
            self._keep_limits(evaluation.rules, evaluation.at)
        except BaseException:
            # A part of it may be written.
            self._kept = {}
            raise
        self._last_at = evaluation.at
        self._latest_at = max(self._latest_at, evaluation.at)

    def _record_gap(self, at: datetime) -> bool:
        """Record that nothing was evaluated since the last evaluation, if it is too long ago."""
        longest = max(KEPT_FOR, timedelta(seconds=2 * self.interval_s))
        # After a moment with a clock that was behind, the one before counts.
        begin = max(
            (moment for moment in (self._last_at, self._latest_at) if moment <= at), default=at
        )
        gaps = without_contradicted(self._gaps, self._last_at, at)
        is_after_gap = at - begin > longest
        if is_after_gap:
            gaps = with_gap(gaps, EvaluationGap(begin, at))
        if gaps != self._gaps:
            self._set_properties({PROPERTY_NOT_EVALUATED: gaps_text(gaps)})
            self._gaps = gaps
        return is_after_gap

    def _note_empty(self, evaluation: Evaluation) -> None:
        """Keep the time of an evaluation without groups: no row has it."""
        is_due = not timedelta() <= evaluation.at - self._noted_at < _REWRITTEN_AFTER
        if not evaluation.statuses.num_rows and is_due:
            self._set_properties({PROPERTY_EVALUATED_AT: evaluation.at.isoformat()})
            self._noted_at = evaluation.at

    def _set_properties(self, properties: Mapping[str, str]) -> None:
        set_properties(self.writer.epoch, GROUP_STATUS, properties)

    def _keep_limits(self, rules: StatusRules, at: datetime) -> None:
        """Set the limits of the rows, which readers compare with those of the last run."""
        if self._limits is None:
            self._limits = limits_of(properties_of(self.writer.tables, GROUP_STATUS))
        if self._limits != rules:
            limits = {PROPERTY_STATUS_RULES: status_rules_text(rules)}
            self._set_properties(limits | {PROPERTY_STATUS_RULES_SINCE: at.isoformat()})
            self._limits = rules

    def _restore(self, at: datetime) -> None:
        """Read the kept rows; the statuses are those of the recorded changes up to a moment."""
        reader, now = TableReader(self.writer.tables), pa.scalar(at, TIMESTAMP)
        ahead = _changes_after(reader, at)
        # Only after a time with a wrong clock.
        earlier = _changes_after(reader, None, at) if ahead.num_rows else None
        self._ahead_at = pc.min(ahead["changed_at"]).as_py() or _NEVER
        for table in JUDGED_TABLES:
            schema = kept_schema(table.schema)
            names = [name for name in schema.names if name not in KNOWN.names]
            rows = columns_of(reader.read(table.name, names), schema)
            # Rows of the future have the time of a wrong clock.
            is_past = pc.less_equal(rows["evaluated_at"], now)
            evaluated_at = pc.max(rows["evaluated_at"].filter(is_past)).as_py()
            if ahead.num_rows:
                # Where no change before it is left, the status counts since now.
                first = with_columns(ahead, {"changed_at": pa.repeat(now, ahead.num_rows)})
                rows = _with_statuses(table, rows, first, "status_before", "first")
            later = _changes_after(reader, evaluated_at, at) if earlier is None else earlier
            rows = _with_statuses(table, rows, later, "status_after", "last")
            self._kept[table] = _with_known(reader, table, rows, at)
        properties = properties_of(self.writer.tables, GROUP_STATUS)
        self._gaps = gaps_of(properties)
        # A release before this one kept rows, but no gaps.
        if PROPERTY_NOT_EVALUATED in properties:
            evaluated_at = self._kept[GROUP_STATUS]["evaluated_at"]
            last = last_evaluation(properties, evaluated_at, reader.moment)
            self._last_at = max(self._last_at, last)

    def _write(self, evaluation: Evaluation, *, is_after_gap: bool) -> None:
        most = evaluation.statuses.num_rows
        if evaluation.lags.num_rows > _MANY_ROWS:
            most //= _PARTS
        lags = self._changes(GROUP_LAG, evaluation.lags, most, is_after_gap)
        groups = self._changes(GROUP_STATUS, evaluation.statuses, most, is_after_gap)
        # A row whose status changed is written, too.
        written = {
            GROUP_LAG: (lags, evaluation.lags.take(pa.array(lags.written))),
            GROUP_STATUS: (groups, evaluation.statuses.take(pa.array(groups.written))),
        }
        recorded = pa.concat_tables(
            _recorded(changes, rows, evaluation.at) for changes, rows in written.values()
        )
        if recorded.num_rows:
            self.writer.append(STATUS_CHANGES, recorded)
        for table, (changes, rows) in written.items():
            source = _source(table, changes, rows)
            if source.num_rows:
                self.writer.merge(table, source, guard=None, deletes=_DELETES)
            self._kept[table] = changes.kept

    def _changes(
        self, table: Table, rows: pa.Table, most_rewritten: int, is_after_gap: bool
    ) -> JudgedChanges:
        return judged_changes(
            self._kept[table],
            rows,
            key=table.key,
            rewritten_after=_REWRITTEN_AFTER,
            most_rewritten=most_rewritten,
            is_after_gap=is_after_gap,
        )


def _source(table: Table, changes: JudgedChanges, written: pa.Table) -> pa.Table:
    """The rows to write and the keys to delete, for a MERGE."""
    standing = changes.kept.select(["status_since", "is_status_older"])
    standing = standing.take(pa.array(changes.written))
    columns = dict(zip(standing.column_names, standing.columns, strict=True))
    rows = columns_of(with_columns(written, columns), nullable(table.schema))
    deleted = columns_of(changes.deleted, rows.schema)
    return pa.concat_tables(
        part.append_column(_DELETES, pa.repeat(is_deleted, part.num_rows))
        for part, is_deleted in ((rows, False), (deleted, True))
    )


def _recorded(changes: JudgedChanges, written: pa.Table, at: datetime) -> pa.Table:
    """Rows of `status_changes`; `topic` and `partition` are null for a group itself."""
    numbers = changes.statuses["number"].to_numpy()
    places = np.searchsorted(changes.written, numbers)
    reasons = written["reason"].take(pa.array(places, mask=numbers == NOWHERE))
    rows = changes.statuses.append_column("reason", reasons)
    times = {"changed_at": pa.scalar(at, TIMESTAMP), "day": pa.scalar(at.date())}
    columns = {name: pa.repeat(value, rows.num_rows) for name, value in times.items()}
    return columns_of(with_columns(rows, columns), STATUS_CHANGES.schema)


def _changes_after(
    reader: TableReader, since: datetime | None, until: datetime = _NEVER
) -> pa.Table:
    """The changes of status that were recorded after a moment, or all, up to another one."""
    span: list[tuple[str, str, Any]] = [("changed_at", "<=", until)]
    if since is not None:
        span += [("day", ">=", since.date()), ("changed_at", ">", since)]
    return reader.read(STATUS_CHANGES.name, _OF_CHANGE, span).sort_by("changed_at")


def _with_known(reader: TableReader, table: Table, rows: pa.Table, at: datetime) -> pa.Table:
    """Kept rows, with the status before `UNKNOWN` of the recorded changes."""
    is_unknown = pc.equal(rows["status"], Status.UNKNOWN.value).fill_null(False)
    if not pc.any(is_unknown).as_py():
        return rows
    changes = _of_table(_changes_after(reader, None, at), table)
    key = list(table.key)
    known = standing(changes, key)
    place = positions(rows.select(key), known.select(key))
    place[~is_unknown.to_numpy()] = NOWHERE
    before = known.take(pa.array(place, mask=place == NOWHERE))
    names = ("status", "status_since", "is_status_older")
    return with_columns(rows, {k: before[n] for k, n in zip(KNOWN.names, names, strict=True)})


def _of_table(changes: pa.Table, table: Table) -> pa.Table:
    """The changes of groups, or of groups in partitions."""
    is_of_group = pc.is_null(changes["topic"])
    return changes.filter(is_of_group if table is GROUP_STATUS else pc.invert(is_of_group))


def _with_statuses(
    table: Table, rows: pa.Table, changes: pa.Table, status: str, place: str
) -> pa.Table:
    """Kept rows, with a status of the first or the last of the changes of their key."""
    changes = _of_table(changes, table)
    if not changes.num_rows:
        return rows
    key = list(table.key)
    with_nulls = pc.ScalarAggregateOptions(skip_nulls=False)
    chosen = changes.group_by(key, use_threads=False).aggregate(
        [(status, place, with_nulls), ("changed_at", place)]
    )
    chosen = chosen.rename_columns([*key, "status", "status_since"])
    chosen = columns_of(chosen.append_column("evaluated_at", chosen["status_since"]), rows.schema)
    is_other = positions(rows.select(key), chosen.select(key)) == NOWHERE
    return pa.concat_tables([rows.filter(pa.array(is_other)), chosen])
