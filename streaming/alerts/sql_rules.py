"""Runs the queries of alert rules; a slow query delays neither a round nor quick queries.

There are two lanes. Each lane answers one query after another in a process that can be killed
(`streaming.views.sql.processes`). A query that exceeds the time limit of the quick lane is killed
and moves to the slow lane, which allows more time. A round waits only for the quick lane.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from streaming.alerts.rules import Rule
from streaming.errors import ConfigurationError
from streaming.views.query import names_in
from streaming.views.snapshot import Snapshot
from streaming.views.sql.processes import QueryTooSlow, SqlProcesses
from streaming.views.sql.question import Form, Question, SqlLimits
from streaming.views.sql.slots import Slots

SLOW: Final = SqlLimits(
    within_s=30.0, memory_bytes=2 << 30, answer_bytes=16 << 20, most_rows=100_000
)
"""The limits of a rule's query in the slow lane."""
QUICK: Final = replace(SLOW, within_s=3.0)
_ROUND_TIMEOUT_S: Final = 1.0
_QUICK_AGAIN_S: Final = 1.0
"""A slow query that takes at most this time moves back to the quick lane."""


class _Lane:
    """A process that answers one query after another."""

    def __init__(self, tables: str, limits: SqlLimits) -> None:
        self.limits = limits
        self.processes = SqlProcesses(Slots("queries of rules", 1), [tables], is_reused=True)
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="sql-rules")

    def answer(self, question: Question) -> pa.Table | None:
        """The answer; None if the query is only checked."""
        with self.processes.answer(question) as file:
            return None if question.form is Form.CHECKED else pa.ipc.open_stream(file).read_all()

    def close(self) -> None:
        """Cancel all queries of the lane, the running one included."""
        self.thread.shutdown(wait=False, cancel_futures=True)
        self.processes.close()
        self.thread.shutdown()


@dataclass(slots=True)
class _QueryState:
    """A query: its pending or finished answer, and the time its last run took."""

    answer: Future[pa.Table] | None = None
    is_slow: bool = False
    took_s: float = 0.0
    not_before: float = 0.0


class SqlRules:
    """Runs the queries of rules, round after round.

    Args:
        tables: the tables folder.
    """

    def __init__(self, tables: str) -> None:
        self._quick, self._slow = _Lane(tables, QUICK), _Lane(tables, SLOW)
        self._queries: dict[str, _QueryState] = {}
        self._checked: set[str] = set()

    def check(self, rules: Collection[Rule]) -> None:
        """Check that the queries of rules are valid.

        Raises:
            ConfigurationError: the query of a rule is not valid; names the first such rule.
        """
        for rule in rules:
            if rule.sql is not None and rule.sql not in self._checked:
                question = Question(sql=rule.sql, form=Form.CHECKED, limits=self._quick.limits)
                try:
                    self._quick.thread.submit(self._quick.answer, question).result()
                except ConfigurationError as error:
                    raise ConfigurationError(f"rule {rule.name}: {error}") from error
                self._checked.add(rule.sql)

    def answer_now(self, rule: Rule, snapshot: Snapshot) -> pa.Table:
        """The answer to a rule's query; waits until the query is done.

        Raises:
            ConfigurationError: the query fails, or exceeds the limits of the slow lane.
        """
        question = _question(str(rule.sql), self._slow, snapshot)
        try:
            return self._slow.thread.submit(self._slow.answer, question).result()
        except ConfigurationError as error:
            raise ConfigurationError(f"rule {rule.name}: {error}") from error

    def ask(self, rules: Collection[Rule], snapshot: Snapshot) -> None:
        """Start the queries that are not running, and wait up to 1 s for the quick ones."""
        queries = {rule.sql for rule in rules if rule.sql is not None}
        self._queries = {sql: self._queries.get(sql) or _QueryState() for sql in queries}
        for sql, state in self._queries.items():
            if state.answer is None and time.monotonic() >= state.not_before:
                lane = self._slow if state.is_slow else self._quick
                question = _question(sql, lane, snapshot)
                state.answer = lane.thread.submit(_timed, lane, question, state)
        wait(
            [
                query.answer
                for query in self._queries.values()
                if query.answer and not query.is_slow
            ],
            _ROUND_TIMEOUT_S,
        )

    def is_answered(self, sql: str) -> bool:
        """Whether a query has an answer that `answer` has not returned yet."""
        state = self._queries[sql]
        return state.answer is not None and state.answer.done()

    def answer(self, sql: str) -> pa.Table | None:
        """The answer to a query, returned once; None if the query moves to the slow lane.

        Raises:
            ConfigurationError: the query fails, or exceeds its limits.
        """
        state = self._queries[sql]
        if state.answer is None:
            raise ValueError("the query has no new answer")
        answer, state.answer = state.answer, None
        if state.is_slow:
            state.is_slow = state.took_s > _QUICK_AGAIN_S
            # The pause is as long as the run: a slow query uses at most half of a core.
            state.not_before = time.monotonic() + state.took_s
            return answer.result()
        try:
            return answer.result()
        except QueryTooSlow:
            state.is_slow = True
            return None

    def close(self) -> None:
        """Cancel all queries."""
        self._quick.close()
        self._slow.close()


def _question(sql: str, lane: _Lane, snapshot: Snapshot) -> Question:
    return Question(
        sql=sql,
        form=Form.ARROW,
        limits=lane.limits,
        place=snapshot.place,
        views=snapshot.computed(names_in(sql)),
    )


def _timed(lane: _Lane, question: Question, state: _QueryState) -> pa.Table:
    began = time.monotonic()
    try:
        return lane.answer(question)
    finally:
        state.took_s = time.monotonic() - began
