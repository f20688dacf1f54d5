"""What the tables say at one moment, and of what each rule's condition holds then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status, StatusRules, time_text
from streaming.alerts.alert import AlertKey, Finding
from streaming.alerts.conditions import MEASURES, Comparison, Measure, value_text
from streaming.alerts.rules import EVERY, Rule, fits
from streaming.alerts.sql import alert_rows
from streaming.lag.group_lag import tables_known_until
from streaming.lag.recent_commits import KEY
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.views.snapshot import Snapshot

Row = dict[str, Any]

_TOLD_AS_SQL: Final = "the query has a row"


class Facts:
    """One snapshot of the tables, for any number of rules; each view is computed once."""

    def __init__(self, reader: TableReader, at: datetime, status_rules: StatusRules) -> None:
        self.snapshot = Snapshot(reader, at=at, status_rules=status_rules)

    def findings(self, rule: Rule) -> list[Finding]:
        """Of what a rule's condition holds, and of what this is not known.

        The queries of rules in SQL are answered by `SqlRules`.
        """
        if rule.tables_behind is not None:
            return list(self._tables_behind(rule, rule.tables_behind))
        return list(self._by_measures(rule))

    def _by_measures(self, rule: Rule) -> Iterator[Finding]:
        wanted: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
        fitting: dict[tuple[str, str], bool] = {}
        for row in self.snapshot.partitions:
            at = row["group_id"], row["topic"]
            if at not in fitting:
                fitting[at] = fits(rule.groups, at[0]) and fits(rule.topics, at[1])
            if fitting[at]:
                wanted[tuple(row[name] for name in rule.key)].append(row)
        judged = {}
        if rule.by == "group" and rule.topics == EVERY:
            # A group has a status of its own, also without offsets.
            judged = {row["group_id"]: row for row in self.snapshot.groups}
            for group_id in judged:
                if fits(rule.groups, group_id):
                    wanted.setdefault((group_id,), [])
        for key, rows in wanted.items():
            verdict = judged.get(key[0]) or max(rows, key=lambda row: Status(row["status"]).rank)
            found = _finding(rule, AlertKey(rule.name, *key), rows, verdict)
            if found is not None:
                yield found

    def _tables_behind(self, rule: Rule, limit: Comparison) -> Iterator[Finding]:
        key, known = AlertKey(rule.name), self._known_until
        moment, told = pc.min(known["known_until"]).as_py(), "are {} behind the log of commits"
        if not pc.any(known["is_sampled"]).as_py():
            # Nobody samples the log: what is known is when somebody wrote.
            moment = pc.max(self.snapshot.reader.read(LOAD_PROGRESS.name)["updated_at"]).as_py()
            told = "were written to {} ago, and the log has not been sampled since"
        behind_ms = 0.0 if moment is None else (self.snapshot.at - moment).total_seconds() * 1000
        if moment is not None and limit.holds(behind_ms):
            reason = f"the tables {told.format(time_text(behind_ms))} ({limit.text})"
            yield Finding(key, reason, behind_ms)
        elif moment is None or known["known_until"].null_count:
            yield Finding(key, None)

    @cached_property
    def _known_until(self) -> pa.Table:
        return tables_known_until(self.snapshot.reader, self.snapshot.at)


def sql_findings(rule: Rule, answer: pa.Table) -> list[Finding]:
    """Of what the condition of a rule in SQL holds.

    Raises:
        ConfigurationError: a column of the answer has the wrong name or type.
    """
    found: dict[AlertKey, Finding] = {}
    for row in alert_rows(answer):
        key = AlertKey(rule.name, *(row.get(name) for name in KEY))
        if fits(rule.groups, key.group_id) and fits(rule.topics, key.topic):
            reason = str(row.get("reason") or _TOLD_AS_SQL)
            found.setdefault(key, Finding(key, reason, row["value"]))
    return list(found.values())


def _finding(rule: Rule, key: AlertKey, rows: Sequence[Row], verdict: Row) -> Finding | None:
    """That all of a rule's conditions hold of some rows, or that it is not known whether."""
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
            reasons.append(f"{name} is {value_text(name, value)} ({limit.text})")
            values.append(value)
    if False in answers:
        return None
    if None in answers:
        return Finding(key, None)
    return Finding(key, "; ".join(reasons), values[0] if values else _total("lag", rows))


def _has_status(wanted: Sequence[Status], status: Status, rows: Sequence[Row]) -> bool | None:
    """None where a partition may be in a worse status than the worst one that is known."""
    if status in wanted:
        return True
    is_known = all(row["status"] != Status.UNKNOWN.value for row in rows)
    return False if is_known and status is not Status.UNKNOWN else None


def _holds(name: str, limit: Comparison, rows: Sequence[Row]) -> tuple[float | None, bool | None]:
    """A measure, and whether it is as asked for; None where what is not known may decide."""
    measure = MEASURES[name]
    if measure.is_of_waiting:
        rows = [row for row in rows if row["lag"] != 0]
    value = _total(name, rows)
    is_whole = all(_value(measure, row) is not None for row in rows)
    if value is None:
        return None, False if is_whole else None
    if limit.holds(value):
        return value, True if is_whole or measure.proves(limit.operator) else None
    return value, False if is_whole else None


def _total(name: str, rows: Sequence[Row]) -> float | None:
    measure = MEASURES[name]
    known = [value for row in rows if (value := _value(measure, row)) is not None]
    return float(measure.total(known)) if known else None


def _value(measure: Measure, row: Row) -> float | None:
    """None where it is not known, also since the tables are too far behind."""
    value: float | None = row[measure.column]
    if value is None or row["status"] == Status.UNKNOWN.value:
        return None
    return max(value - (row["behind_ms"] or 0), 0) if measure.is_age else value
