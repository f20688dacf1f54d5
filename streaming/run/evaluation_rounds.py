"""The evaluation of lag and status beside the query.

An evaluation reads the newest snapshot and the newest samples. The time between two evaluations
grows with their processor time, so that they take at most a tenth of a core. While nothing is
written to the tables, only time can change a status, so evaluations are rarer.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from streaming.errors import WriterFenced, first_line
from streaming.lag.paces import KnownPaces
from streaming.run.evaluation import StatusEvaluation
from streaming.run.monitoring.run_metrics import RunMetrics
from streaming.tables import delta
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    EXTERNAL_OFFSETS,
    LOAD_PROGRESS,
    LOG_OFFSETS,
    STATE_LOADING,
    Table,
)

logger = logging.getLogger(__name__)

_MOST_SHARE: Final = 0.05
"""Of a core for this thread. Arrow's threads use as much again: a tenth of a core at most."""
_LONGEST_S: Final = 60.0
_RESTS_S: Final = 15.0
"""Between two evaluations of tables that nobody writes."""
_READ: Final = (LOAD_PROGRESS, LOG_OFFSETS, EXTERNAL_OFFSETS)


@dataclass(slots=True)
class EvaluationRounds:
    """Evaluates all groups again and again, and keeps the rows."""

    kept: StatusEvaluation
    metrics: RunMetrics
    clock: Callable[[], float] = time.monotonic
    processor: Callable[[], float] = time.thread_time
    """The processor time of this thread: on a busy machine, an evaluation only takes longer."""
    _next_s: float = 0.0
    _versions: Mapping[Table, int] = field(default_factory=dict)
    _evaluated_s: float = float("-inf")
    _is_failing: bool = False
    _paces: KnownPaces = field(default_factory=KnownPaces)
    _used_s: deque[float] = field(default_factory=lambda: deque([0.0], 2))
    """The processor time of the last two evaluations."""

    def evaluate(self) -> None:
        """Evaluate all groups, if it is time.

        Nothing is evaluated while log partitions are loaded. A failure is logged once, and a later
        call tries again. It does not affect the other tables.

        Raises:
            WriterFenced: a newer writer has taken over.
        """
        try:
            self._evaluate()
        except WriterFenced:
            raise
        except Exception as error:
            self.metrics.evaluation.labels("failed").inc()
            if not self._is_failing:
                logger.warning(
                    "cannot evaluate lag and status: %(error)s; retrying",
                    {"error": first_line(error)},
                )
                logger.debug("traceback of the warning above", exc_info=True)
            self._is_failing = True

    def _evaluate(self) -> None:
        begun_s, tables = self.clock(), self.kept.writer.tables
        if begun_s < self._next_s:
            return
        versions = {table: delta.current_version(tables, table) for table in _READ}
        if versions == self._versions and begun_s < self._evaluated_s + _RESTS_S:
            return
        reader = TableReader(tables)
        states = reader.load_states
        if not states or any(log.state == STATE_LOADING for log in states.values()):
            return
        used_before_s, elsewhere_s = self.processor(), 0.0
        try:
            elsewhere_s = self.kept.evaluate(reader, self._paces).processor_s
        finally:
            # That of other processes has their Arrow threads already.
            self._used_s.append(self.processor() - used_before_s + elsewhere_s / 2)
            # The first one loads code.
            interval_s = min(min(self._used_s) / _MOST_SHARE, _LONGEST_S)
            self._next_s = begun_s + interval_s
            self.metrics.evaluated(self.clock() - begun_s, max(interval_s, self.kept.interval_s))
        self.metrics.evaluation.labels("done").inc()
        self._versions, self._evaluated_s = versions, begun_s
        if self._is_failing:
            logger.warning("the evaluation of lag and status works again")
        self._is_failing = False
