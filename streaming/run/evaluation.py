"""The tables `group_lag`, `group_status` and `status_changes`, which `run` keeps.

Only rows that differ from the kept ones are written. First the changes of status are appended to
`status_changes`. After a crash between two writes, the next evaluation takes the statuses from
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import pyarrow as pa

from coordinator_state.insight.group_status import StatusRules
from streaming.lag.evaluation import KEPT_FOR, Evaluation
from streaming.lag.paces import KnownPaces
from streaming.run.evaluated_rows import (
    DELETES,
    REWRITTEN_AFTER,
    KeptRows,
    Round,
    evaluated_rows,
    kept_rows,
)
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
    GROUP_STATUS,
    PROPERTY_EVALUATED_AT,
    PROPERTY_NOT_EVALUATED,
    PROPERTY_STATUS_RULES,
    PROPERTY_STATUS_RULES_SINCE,
    STATUS_CHANGES,
)
from streaming.tables.status_rules import status_rules_text
from streaming.tables.writer import Writer


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The number of groups of an evaluation, and its processor time outside of this process."""

    groups: int
    processor_s: float = 0.0


class EvaluationTasks(Protocol):
    """Evaluates and writes the groups of all log partitions outside of the driver process."""

    def last_evaluated_at(self, now: datetime) -> pa.ChunkedArray:
        """The last `evaluated_at` of `group_status` that is not of the future; one value or none.

        Raises:
            TablesUnavailable: the table cannot be read.
        """

    def write(self, reader: TableReader, this_round: Round) -> Evaluated:
        """Evaluate the groups at the moment of a snapshot, and write their `evaluated_rows`.

        Raises:
            WriterFenced: a newer writer has taken over.
            TablesUnavailable: a table cannot be read or written.
        """


@dataclass(slots=True)
class StatusEvaluation:
    """Keeps `group_lag`, `group_status` and `status_changes` of one tables folder."""

    writer: Writer
    interval_s: float = 0.0
    """The time between two evaluations."""
    tasks: EvaluationTasks | None = None
    """If None, this process evaluates."""
    _limits: StatusRules | None = None
    _is_restored: bool = False
    _last_at: datetime = BEGINNING
    """The moment of the last evaluation."""
    _latest_at: datetime = BEGINNING
    """The greatest such moment: later than the last one if the clock was set back."""
    _kept: KeptRows | None = None
    """The rows of the last evaluation, if this process evaluated and wrote all of them."""
    _kept_until: datetime | None = None
    """The moment of the last evaluation that was written completely."""
    _noted_at: datetime = BEGINNING
    """The moment of the last evaluation without groups that a property has."""
    _gaps: Sequence[EvaluationGap] = ()

    def evaluate(self, reader: TableReader, known: KnownPaces) -> Evaluated:
        """Evaluate all groups at the moment of a snapshot, and write the differences.

        Args:
            reader: the newest snapshot.
            known: what this process has read for earlier evaluations.

        Raises:
            WriterFenced: a newer writer has taken over.
            ConfigurationError: a table cannot be read or written.
        """
        if self.tasks is None:
            return self.keep(Evaluation.of(reader, known=known))
        tasks = self.tasks
        return self._keep(
            reader.moment, reader.status_rules, lambda this_round: tasks.write(reader, this_round)
        )

    def keep(self, evaluation: Evaluation) -> Evaluated:
        """Write the differences between an evaluation and the tables.

        Raises:
            WriterFenced: a newer writer has taken over.
            ConfigurationError: a table cannot be read or written.
        """
        return self._keep(
            evaluation.at, evaluation.rules, lambda this_round: self._write(evaluation, this_round)
        )

    def _keep(
        self, at: datetime, rules: StatusRules, write: Callable[[Round], Evaluated]
    ) -> Evaluated:
        if not self._is_restored:
            self._restore()
        try:
            is_after_gap = self._record_gap(at)
            evaluated = write(Round(kept_until=self._kept_until, is_after_gap=is_after_gap))
            if not evaluated.groups:
                self._note_empty(at)
            self._keep_limits(rules, at)
        except BaseException:
            # A part of it may be written.
            self._is_restored, self._kept = False, None
            raise
        self._last_at = self._kept_until = at
        self._latest_at = max(self._latest_at, at)
        return evaluated

    def _write(self, evaluation: Evaluation, this_round: Round) -> Evaluated:
        reader, kept, at = TableReader(self.writer.tables), self._kept, evaluation.at
        # The clock may have been set back, or has come to a change of the time when it was ahead.
        if kept is None or not self._last_at <= at < kept.until:
            kept = kept_rows(reader, at, this_round.kept_until)
        evaluated = evaluated_rows(reader, evaluation, this_round, kept)
        for table, rows in evaluated.written.items():
            if not rows.num_rows:
                continue
            if table is STATUS_CHANGES:
                self.writer.append(table, rows)
            else:
                self.writer.merge(table, rows, guard=None, deletes=DELETES)
        self._kept = evaluated.kept
        return Evaluated(evaluation.statuses.num_rows)

    def _restore(self) -> None:
        """Read the gaps, and when the tables were evaluated last."""
        reader = TableReader(self.writer.tables)
        properties = properties_of(self.writer.tables, GROUP_STATUS)
        self._gaps = gaps_of(properties)
        # A release before this one kept rows, but no gaps.
        if PROPERTY_NOT_EVALUATED in properties:
            if self.tasks is None:
                evaluated_at = reader.read(GROUP_STATUS.name, ["evaluated_at"])["evaluated_at"]
            else:
                evaluated_at = self.tasks.last_evaluated_at(reader.moment)
            last = last_evaluation(properties, evaluated_at, reader.moment)
            self._last_at = max(self._last_at, last)
        self._is_restored = True

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

    def _note_empty(self, at: datetime) -> None:
        """Keep the time of an evaluation without groups: no row has it."""
        if not timedelta() <= at - self._noted_at < REWRITTEN_AFTER:
            self._set_properties({PROPERTY_EVALUATED_AT: at.isoformat()})
            self._noted_at = at

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
