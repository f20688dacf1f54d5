"""Evaluation of alert rules over one snapshot of the tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status, StatusRules, time_text
from streaming.alerts.alert import AlertKey, Finding
from streaming.alerts.candidates import candidates
from streaming.alerts.conditions import MEASURES, Comparison, Measure, value_text
from streaming.alerts.rules import EVERY, Rule, TablesStale, TablesUnreadable, fits
from streaming.alerts.sql import alert_rows
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import tables_known_until
from streaming.lag.recent_commits import KEY
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.views.snapshot import Snapshot

Row = dict[str, Any]

_DEFAULT_SQL_REASON: Final = "the query returned a row"


class Facts:
    """One snapshot of the tables for all rules; each view is computed at most once.

    With `group_ids`, rules without SQL look at these groups only.
    """

    def __init__(
        self,
        reader: TableReader,
        at: datetime,
        status_rules: StatusRules,
        group_ids: Collection[str] | None = None,
    ) -> None:
        self.snapshot = Snapshot(reader, at=at, status_rules=status_rules, group_ids=group_ids)
        self._status_rules = status_rules
        self._tables_states = {AlertKey(TablesUnreadable.name): "the tables can be read"}

    def findings(self, rule: Rule) -> list[Finding]:
        """The keys for which a rule's condition holds, and those for which it is unknown.

        Not for rules in SQL: `SqlRules` runs their queries.
        """
        if rule.tables_behind is not None:
            return list(self._tables_behind(rule, rule.tables_behind))
        return list(self._by_measures(rule))

    def tables_stale(self) -> list[Finding]:
        """The finding of `tables_stale`; unknown while a quiet log would look the same."""
        key = AlertKey(TablesStale.name)
        fresh = Freshness.of(self.snapshot.reader, self.snapshot.at)
        verdict = fresh.verdict(self._status_rules)
        if verdict is not None:
            return [Finding(key, verdict.reason, fresh.age_ms)]
        if fresh.notice(self._status_rules) is not None:
            return [Finding(key, None)]
        self._tables_states[key] = f"the tables were written {time_text(fresh.age_ms)} ago"
        return []

    def state_of(self, key: AlertKey) -> str | None:
        """The current state of an alert's subject; None if it is no group and not the tables."""
        if key.group_id is None:
            return self._tables_states.get(key)
        rows: list[Row]
        if key.topic is None:
            rows = self._groups_of([key.group_id])
        else:
            partitions = self.snapshot.partitions
            place = {"group_id": key.group_id, "topic": key.topic, "partition": key.partition}
            is_it = np.ones(len(partitions), np.bool_)
            for name, value in place.items():
                if value is not None:
                    found = pc.equal(partitions.columns[name], value)
                    is_it &= found.to_numpy(zero_copy_only=False)
            rows = partitions.rows(np.flatnonzero(is_it))
        if not rows:
            return "the committed offset no longer exists" if key.topic else "the group is deleted"
        worst = _worst(rows)
        return f"now {worst['status']}: {worst['reason']}"

    def _by_measures(self, rule: Rule) -> Iterator[Finding]:
        partitions, groups = self.snapshot.partitions, None
        if rule.by == "group" and rule.topics == EVERY:
            # A group has its own status, even if it has no committed offsets.
            groups = self.snapshot.groups
        wanted: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        for row in partitions.rows(candidates(rule, partitions, groups)):
            wanted[tuple(row[name] for name in rule.key)].append(row)
        judged: dict[str, Row] = {}
        if groups is not None:
            numbers = groups.numbers([group_id for (group_id,) in wanted])
            if not rule.limits:
                numbers = np.append(numbers, groups.without_offsets)
            judged = {row["group_id"]: row for row in groups.rows(numbers)}
            for group_id in judged:
                if fits(rule.groups, group_id):
                    wanted.setdefault((group_id,), [])
        for key, rows in wanted.items():
            verdict = judged.get(key[0]) or _worst(rows)
            found = _finding(rule, AlertKey(rule.name, *key), rows, verdict)
            if found is not None:
                yield found

    def _tables_behind(self, rule: Rule, limit: Comparison) -> Iterator[Finding]:
        key, known = AlertKey(rule.name), self._known_until
        moment, template = pc.min(known["known_until"]).as_py(), "are {} behind __consumer_offsets"
        if not pc.any(known["is_sampled"]).as_py():
            # Without offset samples only the time of the last write is known.
            moment = pc.max(self.snapshot.reader.read(LOAD_PROGRESS.name)["updated_at"]).as_py()
            template = "were last written {} ago, and the log has not been sampled since"
        behind_ms = 0.0 if moment is None else (self.snapshot.at - moment).total_seconds() * 1000
        state = f"the tables {template.format(time_text(behind_ms))}"
        self._tables_states[key] = state
        if moment is not None and limit.holds(behind_ms):
            yield Finding(key, f"{state} ({limit.text})", behind_ms)
        elif moment is None or known["known_until"].null_count:
            yield Finding(key, None)

    def _groups_of(self, group_ids: Sequence[str]) -> list[Row]:
        """The rows of existing groups."""
        numbers = self.snapshot.groups.numbers(group_ids)
        return self.snapshot.groups.rows(numbers)

    @cached_property
    def _known_until(self) -> pa.Table:
        return tables_known_until(self.snapshot.reader, self.snapshot.at)


def sql_findings(rule: Rule, answer: pa.Table) -> list[Finding]:
    """The findings of a rule in SQL: one for each distinct key in the answer of its query.

    Raises:
        ConfigurationError: a column or value of the answer has the wrong type.
    """
    found: dict[AlertKey, Finding] = {}
    for row in alert_rows(answer):
        key = AlertKey(rule.name, *(row.get(name) for name in KEY))
        if fits(rule.groups, key.group_id) and fits(rule.topics, key.topic):
            reason = str(row.get("reason") or _DEFAULT_SQL_REASON)
            found.setdefault(key, Finding(key, reason, row["value"]))
    return list(found.values())


def _finding(rule: Rule, key: AlertKey, rows: Sequence[Row], verdict: Row) -> Finding | None:
    """A finding if all conditions of the rule hold for the rows, or if that is unknown."""
    reasons, values = [], []
    answers: list[bool | None] = []
    if rule.status is not None:
        status = Status(verdict["status"])
        reasons.append(f"{status.value}: {verdict['reason']}")
        answers.append(_has_status(rule.status, status, rows))
    for name, limit in rule.limits.items():
        value, answer = _holds(name, limit, rows)
        answers.append(answer)
        if value is not None:
            at_least = "at least " if _is_lower_bound(MEASURES[name], rows) else ""
            reasons.append(f"{name} is {at_least}{value_text(name, value)} ({limit.text})")
            values.append(value)
    if False in answers:
        return None
    if None in answers:
        return Finding(key, None)
    value = values[0] if values else _total("lag", rows)
    return Finding(key, "; ".join(reasons), value, verdict["status"])


def _worst(rows: Iterable[Row]) -> Row:
    return max(rows, key=lambda row: Status(row["status"]).rank)


def _has_status(wanted: Sequence[Status], status: Status, rows: Sequence[Row]) -> bool | None:
    """Whether the status is a wanted one; None if it or that of a partition is unknown."""
    if status in wanted:
        return True
    is_known = all(row["status"] != Status.UNKNOWN.value for row in rows)
    return False if is_known and status is not Status.UNKNOWN else None


def _holds(name: str, limit: Comparison, rows: Sequence[Row]) -> tuple[float | None, bool | None]:
    """The value of a measure, and whether it meets the limit; None if unknown values decide."""
    measure = MEASURES[name]
    if measure.needs_lag:
        rows = [row for row in rows if row["lag"] != 0]
    value = _total(name, rows)
    is_whole = all(_value(measure.column, measure, row) is not None for row in rows)
    if value is None:
        return None, False if is_whole else None
    if limit.holds(value):
        return value, True if is_whole or measure.proves(limit.operator) else None
    return value, False if is_whole else None


def _is_lower_bound(measure: Measure, rows: Sequence[Row]) -> bool:
    """Whether the total of a measure is that of lower bounds."""
    return measure.lower_bound is not None and any(
        row[measure.column] is None and row[measure.lower_bound] is not None for row in rows
    )


def _total(name: str, rows: Sequence[Row]) -> float | None:
    measure = MEASURES[name]
    column = measure.lower_bound or measure.column
    known = [value for row in rows if (value := _value(column, measure, row)) is not None]
    return float(measure.total(known)) if known else None


def _value(column: str, measure: Measure, row: Row) -> float | None:
    """The value of one partition; None if unknown, also because the tables are too far behind."""
    value: float | None = row[column]
    if value is None or row["status"] == Status.UNKNOWN.value:
        return None
    return max(value - (row["behind_ms"] or 0), 0) if measure.is_age else value
