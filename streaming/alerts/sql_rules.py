"""The queries of rules, each in its own time: a slow one holds up neither a round nor another one.

Processes that can be killed answer them (`streaming.views.sql.processes`), in one of two lanes, in
each one after the other. A query that takes longer than the first lane allows is killed there, and
from then on answered in the second one, which has more time. A round waits for the first lane
alone.
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
"""The time and memory that the query of a rule may take."""
QUICK: Final = replace(SLOW, within_s=3.0)
_ROUND_WAITS_S: Final = 1.0
_IS_QUICK_S: Final = 1.0
"""A query that takes no longer goes back to the first lane."""


class _Lane:
    """A process that answers one query after the other."""

    def __init__(self, tables: str, limits: SqlLimits) -> None:
        self.limits = limits
        self.processes = SqlProcesses(Slots("queries of rules", 1), [tables], is_reused=True)
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="sql-rules")

    def answer(self, question: Question) -> pa.Table | None:
        """The answer, none where the query is only to be understood."""
        with self.processes.answer(question) as file:
            return None if question.form is Form.CHECKED else pa.ipc.open_stream(file).read_all()

    def close(self) -> None:
        """End the work in progress."""
        self.thread.shutdown(wait=False, cancel_futures=True)
        self.processes.close()
        self.thread.shutdown()


@dataclass(slots=True)
class _Asked:
    """A query, and how it went the last time."""

    answer: Future[pa.Table] | None = None
    is_slow: bool = False
    took_s: float = 0.0
    not_before: float = 0.0


class SqlRules:
    """Asks the queries of rules over the tables of a folder, again and again.

    Args:
        tables: the folder.
    """

    def __init__(self, tables: str) -> None:
        self._quick, self._slow = _Lane(tables, QUICK), _Lane(tables, SLOW)
        self._asked: dict[str, _Asked] = {}
        self._understood: set[str] = set()

    def check(self, rules: Collection[Rule]) -> None:
        """Refuse rules whose query is not valid.

        Raises:
            ConfigurationError: the first such rule, and why.
        """
        for rule in rules:
            if rule.sql is not None and rule.sql not in self._understood:
                asked = Question(sql=rule.sql, form=Form.CHECKED, limits=self._quick.limits)
                try:
                    self._quick.thread.submit(self._quick.answer, asked).result()
                except ConfigurationError as error:
                    raise ConfigurationError(f"rule {rule.name}: {error}") from error
                self._understood.add(rule.sql)

    def answer_now(self, rule: Rule, snapshot: Snapshot) -> pa.Table:
        """The answer to the query of a rule, however long a round would wait for it.

        Raises:
            ConfigurationError: the query fails, or takes more than it may.
        """
        question = _question(str(rule.sql), self._slow, snapshot)
        try:
            return self._slow.thread.submit(self._slow.answer, question).result()
        except ConfigurationError as error:
            raise ConfigurationError(f"rule {rule.name}: {error}") from error

    def ask(self, rules: Collection[Rule], snapshot: Snapshot) -> None:
        """Ask the queries that are not being answered, and wait a moment for the quick ones."""
        queries = {rule.sql for rule in rules if rule.sql is not None}
        self._asked = {sql: self._asked.get(sql) or _Asked() for sql in queries}
        for sql, asked in self._asked.items():
            if asked.answer is None and time.monotonic() >= asked.not_before:
                lane = self._slow if asked.is_slow else self._quick
                question = _question(sql, lane, snapshot)
                asked.answer = lane.thread.submit(_timed, lane, question, asked)
        wait(
            [one.answer for one in self._asked.values() if one.answer and not one.is_slow],
            _ROUND_WAITS_S,
        )

    def is_answered(self, sql: str) -> bool:
        """Whether a query has been answered since its last answer was taken."""
        asked = self._asked[sql]
        return asked.answer is not None and asked.answer.done()

    def answer(self, sql: str) -> pa.Table | None:
        """Take the answer to a query, None where it takes more time than the first lane has.

        Raises:
            ConfigurationError: the query fails, or takes more than it may.
        """
        asked = self._asked[sql]
        if asked.answer is None:
            raise ValueError("the answer was taken")
        answer, asked.answer = asked.answer, None
        if asked.is_slow:
            asked.is_slow = asked.took_s > _IS_QUICK_S
            # A slow query does not take a whole processor.
            asked.not_before = time.monotonic() + asked.took_s
            return answer.result()
        try:
            return answer.result()
        except QueryTooSlow:
            asked.is_slow = True
            return None

    def close(self) -> None:
        """End the queries in progress."""
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


def _timed(lane: _Lane, question: Question, asked: _Asked) -> pa.Table:
    began = time.monotonic()
    try:
        return lane.answer(question)
    finally:
        asked.took_s = time.monotonic() - began
