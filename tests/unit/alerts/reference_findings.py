"""The findings of a rule, from rows that are looked at one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from coordinator_state.insight.group_status import Status
from streaming.alerts.alert import AlertKey, Finding
from streaming.alerts.rules import EVERY, MEASURES, Measure, Rule, fits, value_text
from streaming.lag.evaluation import Evaluation

Row = dict[str, Any]


def reference_findings(rule: Rule, evaluation: Evaluation) -> Iterator[Finding]:
    """The same as `condition_findings`, in any order."""
    rows_of: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in evaluation.group_lag().to_pylist():
        if fits(rule.groups, row["group_id"]) and fits(rule.topics, row["topic"]):
            rows_of[tuple(row[name] for name in rule.key)].append(row)
    statuses: dict[str, Row] = {}
    if rule.by == "group" and rule.topics == EVERY:
        statuses = {row["group_id"]: row for row in evaluation.statuses.to_pylist()}
        if not rule.limits:
            for group_id in statuses:
                if fits(rule.groups, group_id):
                    rows_of.setdefault((group_id,), [])
    for key, rows in rows_of.items():
        verdict = statuses.get(key[0]) or max(rows, key=lambda row: Status(row["status"]).rank)
        finding = _finding(rule, AlertKey(rule.name, *key), rows, verdict)
        if finding is not None:
            yield finding


def _finding(rule: Rule, key: AlertKey, rows: Sequence[Row], verdict: Row) -> Finding | None:
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


def _has_status(wanted: Sequence[Status], status: Status, rows: Sequence[Row]) -> bool | None:
    if status in wanted:
        return True
    is_known = all(row["status"] != Status.UNKNOWN.value for row in rows)
    return False if is_known and status is not Status.UNKNOWN else None


def _holds(name: str, limit: Any, rows: Sequence[Row]) -> tuple[float | None, bool | None]:
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
    return measure.lower_bound is not None and any(
        row[measure.column] is None and row[measure.lower_bound] is not None for row in rows
    )


def _total(name: str, rows: Sequence[Row]) -> float | None:
    measure = MEASURES[name]
    column = measure.lower_bound or measure.column
    known = [value for row in rows if (value := _value(column, measure, row)) is not None]
    return float(measure.total(known)) if known else None


def _value(column: str, measure: Measure, row: Row) -> float | None:
    value: float | None = row[column]
    if value is None or row["status"] == Status.UNKNOWN.value:
        return None
    if not measure.is_age or row["known_until"] is None:
        return value
    behind_ms = (row["evaluated_at"] - row["known_until"]).total_seconds() * 1000
    return max(value - int(behind_ms), 0)
