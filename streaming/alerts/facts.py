"""Evaluation of alert rules over one snapshot of the tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.insight.group_status import Status, StatusRules, time_text
from streaming.alerts.alert import AlertKey, Finding
from streaming.alerts.condition_findings import condition_findings
from streaming.alerts.conditions import AGEING, Comparison
from streaming.alerts.rules import Rule, TablesStale, TablesUnreadable, fits
from streaming.alerts.sql import alert_rows
from streaming.lag.evaluation import Evaluation
from streaming.lag.freshness import Freshness
from streaming.lag.group_lag import tables_known_until
from streaming.lag.paces import KnownPaces
from streaming.lag.recent_commits import KEY
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS
from streaming.views.snapshot import Snapshot

Row = dict[str, Any]

_DEFAULT_SQL_REASON: Final = "the query returned a row"


class Facts:
    """One snapshot of the tables for all rules; each view is computed at most once.

    With `group_ids`, rules without SQL look at these groups only. `evaluation` is the lag and
    status of all groups, if somebody has computed them.
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
            reader, at=at, status_rules=status_rules, group_ids=group_ids, evaluation=evaluation
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


def sql_findings(rule: Rule, answer: pa.Table) -> list[Finding]:
    """The findings of a rule in SQL: one for each distinct key in the answer of its query.

    Raises:
        ConfigurationError: a column or value of the answer has the wrong type.
    """
    finding_by_key: dict[AlertKey, Finding] = {}
    for row in alert_rows(answer):
        key = AlertKey(rule.name, *(row.get(name) for name in KEY))
        if fits(rule.groups, key.group_id) and fits(rule.topics, key.topic):
            reason = str(row.get("reason") or _DEFAULT_SQL_REASON)
            finding_by_key.setdefault(key, Finding(key, reason, row["value"]))
    return list(finding_by_key.values())
