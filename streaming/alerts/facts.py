"""Evaluation of alert rules over one snapshot of the tables: the keys for which each rule holds.

Rules with a status and measures are evaluated for all keys at once, over the columns of lag and
status. The answers of rules in SQL are checked for the columns and types that an alert has.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status, StatusRules, time_text
from coordinator_state.insight.lag import Bools, Int64s
from streaming.alerts.alert import AlertKey, Finding
from streaming.alerts.rules import (
    AGEING,
    EVERY,
    MEASURES,
    Comparison,
    Measure,
    Rule,
    TablesStale,
    TablesUnreadable,
    fits,
    value_text,
)
from streaming.errors import ConfigurationError
from streaming.lag.evaluation import Evaluation
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import tables_known_until
from streaming.lag.paces import KnownPaces
from streaming.lag.partition_statuses import ranks_of
from streaming.lag.recent_commits import KEY
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.views.snapshot import Snapshot

Row = dict[str, Any]
Floats = npt.NDArray[np.float64]

_ROW: Final = "row"
_SQL_COLUMNS: Final = (*KEY, "value", "reason")
_INT32: Final = range(-(1 << 31), 1 << 31)
_DEFAULT_SQL_REASON: Final = "the query returned a row"


class Facts:
    """One snapshot of the tables for all rules; each view is computed at most once.

    With `group_ids`, rules without SQL look at these groups only. `known` is what earlier
    evaluations have read, and `evaluation` the lag and status of all groups, if somebody has
    computed them.
    """

    def __init__(
        self,
        reader: TableReader,
        at: datetime,
        status_rules: StatusRules | None = None,
        group_ids: Collection[str] | None = None,
        known: KnownPaces | None = None,
        evaluation: Evaluation | None = None,
    ) -> None:
        self._paces = known
        self.snapshot = Snapshot(
            reader,
            at=at,
            status_rules=status_rules,
            group_ids=group_ids,
            known=known,
            evaluation=evaluation,
        )
        self._tables_states = {AlertKey(TablesUnreadable.name): "the tables can be read"}

    def findings(self, rule: Rule) -> list[Finding]:
        """The keys for which a rule's condition holds, and those for which it is unknown.

        Not for rules in SQL: `SqlRules` runs their queries.
        """
        if rule.tables_behind is not None:
            return list(self._tables_behind(rule, rule.tables_behind))
        return list(condition_findings(rule, self._evaluation_for(rule)))

    def tables_stale(self) -> list[Finding]:
        """The finding of `tables_stale`; unknown while a quiet log would look the same."""
        key = AlertKey(TablesStale.name)
        fresh = Freshness.of(self.snapshot.reader, self.snapshot.at)
        verdict = fresh.verdict(self.snapshot.status_rules)
        if verdict is not None:
            return [Finding(key, verdict.reason, fresh.age_ms)]
        if fresh.notice(self.snapshot.status_rules) is not None:
            return [Finding(key, None)]
        self._tables_states[key] = f"the tables were written {time_text(fresh.age_ms)} ago"
        return []

    def state_of(self, key: AlertKey) -> str | None:
        """The current state of an alert's subject; None if it is no group and not the tables."""
        if key.group_id is None:
            return self._tables_states.get(key)
        if key.topic is None:
            rows = list(self.snapshot.groups([key.group_id]).values())
        else:
            rows = self._partitions_of(key)
        if not rows:
            return "the committed offset no longer exists" if key.topic else "the group is deleted"
        worst = max(rows, key=lambda row: Status(row["status"]).rank)
        return f"now {worst['status']}: {worst['reason']}"

    def _evaluation_for(self, rule: Rule) -> Evaluation:
        """The lag and status for a rule; kept rows are too old for ages and rates."""
        evaluation = self.snapshot.evaluation
        if not evaluation.is_kept or not AGEING & rule.limits.keys():
            return evaluation
        return self._evaluation_now

    @cached_property
    def _evaluation_now(self) -> Evaluation:
        snapshot = self.snapshot
        rules, known = snapshot.status_rules, self._paces
        return Evaluation.of(snapshot.reader, at=snapshot.at, rules=rules, known=known)

    def _partitions_of(self, key: AlertKey) -> list[Row]:
        condition = pc.scalar(True)
        for name in KEY:
            value = getattr(key, name)
            if value is not None:
                condition &= pc.field(name) == value
        rows: list[Row] = self.snapshot.evaluation.lags_where(condition).to_pylist()
        return rows

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

    @cached_property
    def _known_until(self) -> pa.Table:
        return tables_known_until(self.snapshot.reader, self.snapshot.at)


def condition_findings(rule: Rule, evaluation: Evaluation) -> Iterator[Finding]:
    """The keys for which all conditions of a rule hold, and those for which that is unknown."""
    keys = _Keys.of(rule, evaluation)
    holds = np.ones(keys.count, np.bool_)
    may_hold = holds.copy()
    limits = {name: keys.limited(name, limit) for name, limit in rule.limits.items()}
    answers = [(limited.holds, limited.is_unknown) for limited in limits.values()]
    if rule.status is not None:
        answers.append(keys.has_status(rule.status))
    for condition, is_unknown in answers:
        holds &= condition
        may_hold &= condition | is_unknown
    for number in np.flatnonzero(may_hold & ~holds).tolist():
        yield Finding(keys.key(number), None)
    numbers = np.flatnonzero(holds)
    if not numbers.size:
        return
    statuses = keys.statuses(numbers)
    lags = keys.limited("lag", None) if not limits else next(iter(limits.values()))
    for number, (status, reason) in zip(numbers.tolist(), statuses, strict=True):
        reasons = [] if rule.status is None else [f"{status}: {reason}"]
        reasons += [limited.text(number) for limited in limits.values()]
        yield Finding(keys.key(number), "; ".join(reasons), lags.value(number), status)


@dataclass(frozen=True, slots=True)
class _Limited:
    """A measure of each key, and whether it meets a limit; the value is NaN if it is unknown."""

    name: str
    limit: Comparison | None
    values: Floats
    holds: Bools
    is_unknown: Bools
    is_lower_bound: Bools

    def value(self, number: int) -> float | None:
        return None if np.isnan(self.values[number]) else float(self.values[number])

    def text(self, number: int) -> str:
        at_least = "at least " if self.is_lower_bound[number] else ""
        value = value_text(self.name, float(self.values[number]))
        limit = "" if self.limit is None else f" ({self.limit.text})"
        return f"{self.name} is {at_least}{value}{limit}"


@dataclass(frozen=True, slots=True)
class _Keys:
    """The keys of a rule, and the rows of `group_lag` that belong to them.

    Attributes:
        rule: the rule.
        evaluation: lag and status.
        rows: the rows of `group_lag` to which the rule applies, with their number in `row`.
        ranks: the rank of their status.
        row_keys: the number of the key of each row.
        names: a table with the columns of the keys.
        group: the number of each key in `group_status`; None if the status of a key is that of its
            worst row.
    """

    rule: Rule
    evaluation: Evaluation
    rows: pa.Table
    ranks: Int64s
    row_keys: Int64s
    names: pa.Table
    group: Int64s | None

    @classmethod
    def of(cls, rule: Rule, evaluation: Evaluation) -> _Keys:
        lags = evaluation.lags
        is_wanted = _fitting(rule.groups, lags["group_id"]) & _fitting(rule.topics, lags["topic"])
        numbers = np.flatnonzero(is_wanted)
        rows = lags.take(pa.array(numbers)).append_column(_ROW, pa.array(numbers))
        names = rows.select(rule.key)
        row_keys, first = _numbered(names)
        names = names.take(pa.array(first))
        groups = None
        if rule.by == "group" and rule.topics == EVERY:
            # A group has its own status, even if it has no committed offsets.
            statuses = evaluation.statuses["group_id"]
            if not rule.limits:
                is_other = pc.invert(pc.is_in(statuses, pc.unique(names["group_id"])))
                others = statuses.filter(pc.and_(is_other, _fitting(rule.groups, statuses)))
                names = pa.concat_tables([names, pa.table({"group_id": others})])
            groups = pc.index_in(names["group_id"], statuses).to_numpy().astype(np.int64)
        return cls(rule, evaluation, rows, ranks_of(rows["status"]), row_keys, names, groups)

    @property
    def count(self) -> int:
        """The number of keys."""
        return self.names.num_rows

    def key(self, number: int) -> AlertKey:
        """The key of an alert."""
        return AlertKey(self.rule.name, *(column[number].as_py() for column in self.names.columns))

    def has_status(self, wanted: Sequence[Status]) -> tuple[Bools, Bools]:
        """Whether the status of each key is a wanted one, and whether that is unknown."""
        if self.group is None:
            ranks = np.full(self.count, Status.IDLE.rank)
            np.maximum.at(ranks, self.row_keys, self.ranks)
        else:
            ranks = ranks_of(self.evaluation.statuses["status"])[self.group]
        holds: Bools = np.isin(ranks, [status.rank for status in wanted])
        is_unknown = self._counted(self._is_unknown) | (ranks == Status.UNKNOWN.rank)
        return holds, is_unknown & ~holds

    def statuses(self, numbers: Int64s) -> list[tuple[str, str]]:
        """The status and the reason of the keys with these numbers."""
        if self.group is not None:
            table = self.evaluation.statuses.take(pa.array(self.group[numbers]))
        else:
            is_wanted = np.isin(self.row_keys, numbers)
            rows = self.rows.filter(pa.array(is_wanted)).select([*KEY, _ROW])
            rows = rows.append_column("rank", pa.array(self.ranks[is_wanted]))
            rows = rows.append_column("key", pa.array(self.row_keys[is_wanted]))
            # Of equally bad rows, the first by its names: rows are in any order.
            order = [("rank", "ascending"), *((name, "descending") for name in KEY)]
            rows = rows.sort_by(order)
            worst = dict(zip(rows["key"].to_pylist(), rows[_ROW].to_pylist(), strict=True))
            places = np.array([worst[number] for number in numbers.tolist()], np.int64)
            table = self.evaluation.lags.take(pa.array(places))
        return list(zip(table["status"].to_pylist(), table["reason"].to_pylist(), strict=True))

    def limited(self, name: str, limit: Comparison | None) -> _Limited:
        """A measure of each key, compared with a limit.

        A value is unknown if it is null, and also if the tables are too far behind. If values that
        are unknown decide, the comparison is unknown.
        """
        measure = MEASURES[name]
        values = self._values(measure, measure.lower_bound or measure.column)
        exact = _floats(self.rows[measure.column])
        counts = np.ones(values.size, np.bool_)
        if measure.needs_lag:
            counts = _floats(self.rows["lag"]) != 0
        if measure.needs_commit:
            counts = pc.is_valid(self.rows["commit_timestamp"]).to_numpy()
        is_partly_unknown = self._counted((np.isnan(exact) | self._is_unknown) & counts)
        totals: Any = self._totals(measure, values, counts & ~np.isnan(values))
        meets = ~np.isnan(totals)
        if limit is not None:
            meets &= limit.holds(totals)
            proves = measure.proves(limit.operator)
        holds = meets if limit is None or proves else meets & ~is_partly_unknown
        is_bound = np.zeros(values.size, np.bool_)
        if measure.is_lower_bound is not None:
            is_bound = self.rows[measure.is_lower_bound].fill_null(False).to_numpy()
        elif measure.lower_bound is not None:
            lower_bound = _floats(self.rows[measure.lower_bound])
            is_bound = np.isnan(exact) & ~np.isnan(lower_bound)
        is_lower_bound = self._counted(is_bound)
        return _Limited(name, limit, totals, holds, is_partly_unknown & ~holds, is_lower_bound)

    @property
    def _is_unknown(self) -> Bools:
        return self.ranks == Status.UNKNOWN.rank

    def _counted(self, is_row: Bools) -> Bools:
        """Whether each key has such a row."""
        return np.bincount(self.row_keys[is_row], minlength=self.count) > 0

    def _values(self, measure: Measure, column: str) -> Floats:
        """The value of each row; NaN if it is unknown."""
        values = _floats(self.rows[column])
        values[self._is_unknown] = np.nan
        if measure.is_age:
            # The tables are behind: the value is that of the time which they have reached.
            behind = pc.subtract(self.rows["evaluated_at"], self.rows["known_until"])
            behind_ms = np.floor(_floats(pc.cast(behind, pa.int64())) / 1000)
            values = np.maximum(values - np.nan_to_num(behind_ms), 0)
        return values

    def _totals(self, measure: Measure, values: Floats, counts: Bools) -> Floats:
        """The total of each key over the rows that count; NaN without such a row."""
        keys, values = self.row_keys[counts], values[counts]
        totals: Any
        if measure.total is sum:
            # Without any row these are integers.
            totals = np.bincount(keys, values, minlength=self.count).astype(np.float64)
        else:
            is_min = measure.total is min
            totals = np.full(self.count, np.inf if is_min else -np.inf)
            (np.minimum if is_min else np.maximum).at(totals, keys, values)
        totals[np.bincount(keys, minlength=self.count) == 0] = np.nan
        return totals


def _fitting(patterns: Sequence[str], names: pa.ChunkedArray) -> Bools:
    if patterns == EVERY:
        return np.ones(len(names), np.bool_)
    encoded = names.combine_chunks().dictionary_encode()
    fitting = [fits(patterns, name) for name in encoded.dictionary.to_pylist()]
    mask: Bools = np.array(fitting, np.bool_)[encoded.indices.to_numpy()]
    return mask


def _numbered(key: pa.Table) -> tuple[Int64s, Int64s]:
    """A number for each distinct key, and the first row of each."""
    codes: Any = np.zeros(key.num_rows, np.int64)
    for column in key.columns:
        encoded = column.combine_chunks().dictionary_encode()
        codes = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
    _, first, numbers = np.unique(codes, return_index=True, return_inverse=True)
    return numbers.reshape(-1), first


def _floats(column: Any) -> Floats:
    """A column of numbers that may be changed; null is NaN."""
    return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)


def sql_findings(rule: Rule, answer: pa.Table) -> list[Finding]:
    """The findings of a rule in SQL: one for each distinct key in the answer of its query.

    Raises:
        ConfigurationError: a column or value of the answer has the wrong type.
    """
    finding_by_key: dict[AlertKey, Finding] = {}
    for row in _sql_rows(answer):
        key = AlertKey(rule.name, *(row.get(name) for name in KEY))
        if fits(rule.groups, key.group_id) and fits(rule.topics, key.topic):
            reason = str(row.get("reason") or _DEFAULT_SQL_REASON)
            finding_by_key.setdefault(key, Finding(key, reason, row["value"]))
    return list(finding_by_key.values())


def _sql_rows(answer: pa.Table) -> list[Row]:
    """The rows of the answer to a rule's query, with only the columns that an alert has.

    Raises:
        ConfigurationError: a column or value has the wrong type.
    """
    names = [name for name in _SQL_COLUMNS if name in answer.column_names]
    if not names:
        return [{"value": None}] if answer.num_rows else []
    for name in names:
        if pa.types.is_nested(answer.schema.field(name).type):
            raise ConfigurationError(
                f"column {name} is a list or a struct: cast it to text with ::VARCHAR"
            )
    rows: list[Row] = answer.select(names).to_pylist()
    for row in rows:
        _check(row)
    return rows


def _check(row: Row) -> None:
    for name, kind, words in (
        ("group_id", str, "text"),
        ("topic", str, "text"),
        ("partition", int, "a whole number"),
    ):
        value = row.get(name)
        if value is not None and not isinstance(value, kind):
            raise ConfigurationError(f"column {name}: {value!r} is not {words}")
    if row.get("partition") is not None and row["partition"] not in _INT32:
        raise ConfigurationError(f"column partition: {row['partition']} is not a 32-bit number")
    value = row.get("value")
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"column value: {value!r} is not a number") from error
    # JSON has no NaN and no infinity.
    row["value"] = number if number is not None and math.isfinite(number) else None
