"""The page that proposes an alert rule for a group, and tests a rule against the past."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from coordinator_state.insight.group_status import Status
from streaming.alerts.firings import Firing, firings
from streaming.alerts.proposals import WITHOUT_RULE, GroupHabits, proposals
from streaming.alerts.replay import replay
from streaming.alerts.rules import AlertRules, Rule, fits, rules_without_sinks
from streaming.dashboard.period import SPANS
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.errors import ConfigurationError
from streaming.lag.evaluation import Evaluation
from streaming.lag.group_lag import RATE_WINDOWS
from streaming.lag.lag_history import lag_histories
from streaming.tables.reader import TableReader

TEST_SPANS: Final = ("1h", "6h", "24h", "7d")
_DEFAULT_SPAN: Final = "24h"
_MOST_RULE_BYTES: Final = 4096
_MOMENTS: Final = 120
"""How many moments of the past a test evaluates."""
_WITHIN_S: Final = 30.0
_REMEMBERED: Final = timedelta(days=1)
_REMEMBERED_STATUSES: Final = 8
"""A proposal for a group that is well looks at its status at this many earlier moments."""
_SELDOM: Final = 95
"""The percentile of the lag that counts as usual."""


@dataclass(frozen=True, slots=True)
class RuleTest:
    """The times at which a rule would have fired for a group, newest first.

    `too_short` is how often its condition held, but not for its `for`.
    """

    rule: Rule
    firings: list[Firing]
    too_short: int
    since: datetime
    until: datetime
    step: timedelta


def page() -> str:
    """Propose a rule, or test the rule in the address."""
    group_id = request.query_params.get("group", "")
    snapshot = request.cluster.opened(request.at)
    span = request.query_params.get("span", _DEFAULT_SPAN)
    span = span if span in TEST_SPANS else _DEFAULT_SPAN
    rule = request.query_params.get("rule", "").replace("\r\n", "\n")
    proposed, test, fault = {}, None, ""
    try:
        if rule.strip():
            test = _tested(rule, snapshot.reader, group_id, SPANS[span])
        else:
            proposed = proposals(_habits(snapshot.reader, group_id))
            rule = proposed.get(request.query_params.get("by", ""), proposed["status"])
    except ConfigurationError as error:
        fault = str(error)
    return render_template(
        "group_alert.html",
        snapshot=snapshot,
        group_id=group_id,
        rule=rule,
        proposals=proposed,
        test=test,
        fault=fault,
        span=span,
        spans=TEST_SPANS,
    )


def rule_of(text: str, group_id: str) -> AlertRules:
    """The rules file with one rule that a test of a group can evaluate.

    Raises:
        ConfigurationError: the text is too long, not a rules file, or has another number of rules;
            or the rule is in SQL, about the tables, or not about the group.
    """
    size = len(text.encode())
    if size > _MOST_RULE_BYTES:
        raise ConfigurationError(f"the rule has {size:,} bytes; at most {_MOST_RULE_BYTES:,} fit")
    rules = rules_without_sinks(text)
    if len(rules.rules) != 1:
        raise ConfigurationError(f"this page tests one rule at a time, not {len(rules.rules)}")
    (rule,) = rules.rules
    if rule.sql is not None or rule.tables_behind is not None:
        # The query would run once for each moment: each run is bounded, all together are not.
        kind = "sql" if rule.sql is not None else "tables_behind"
        raise ConfigurationError(
            f"rule {rule.name}: this page cannot test a rule with {kind}: use coordinator-state "
            "alert test"
        )
    if not fits(rule.groups, group_id):
        raise ConfigurationError(f"rule {rule.name}: its groups do not match {group_id}")
    return rules


def _tested(text: str, reader: TableReader, group_id: str, span: timedelta) -> RuleTest:
    rules = rule_of(text, group_id)
    until = reader.moment
    since = max(until - span, reader.begins_at)
    step = max((until - since) / _MOMENTS, rules.interval)
    ends_at = time.monotonic() + _WITHIN_S

    def check_time(_done: int, _of: int) -> None:
        if time.monotonic() > ends_at:
            raise ConfigurationError(
                f"the test took more than {_WITHIN_S:g} s: choose a shorter period"
            )

    changes = replay(
        rules, reader, since=since, step=step, group_ids=[group_id], on_moment=check_time
    )
    replayed_firings = firings(changes)
    return RuleTest(
        rules.rules[0], replayed_firings.rows, replayed_firings.too_short, since, until, step
    )


def _habits(reader: TableReader, group_id: str) -> GroupHabits:
    """The group as it is and was in the last day."""
    evaluation = Evaluation.read(reader, group_ids=[group_id])
    rows = evaluation.statuses.to_pylist()
    row = rows[0] if rows else {}
    status = Status(row["status"]) if row else None
    since = max(reader.moment - _REMEMBERED, reader.begins_at)
    reader = reader.with_history(since=since - RATE_WINDOWS[0], group_ids=[group_id])
    is_well = status is None or status in WITHOUT_RULE
    return GroupHabits(
        group_id=group_id,
        status=status,
        earlier=set(_statuses(reader, group_id, since)) if is_well else set(),
        lag=row.get("lag"),
        usual_lag=_usual_lag(reader, group_id, since),
        time_lag_ms=row.get("max_time_lag_at_least_ms"),
    )


def _statuses(newest: TableReader, group_id: str, since: datetime) -> Iterator[Status]:
    until = newest.moment
    for number in range(_REMEMBERED_STATUSES):
        at = since + (until - since) * number / _REMEMBERED_STATUSES
        reader = newest.before(at)
        if reader is not None:
            evaluation = Evaluation.of(reader, at=at, group_ids=[group_id])
            yield from map(Status, evaluation.statuses["status"].to_pylist())


def _usual_lag(reader: TableReader, group_id: str, since: datetime) -> float | None:
    until = reader.moment
    if since >= until:
        return None
    history = lag_histories(reader, [group_id], since=since, until=until)[group_id]
    known = [lag for lag in history.lag if lag is not None]
    return float(np.percentile(known, _SELDOM)) if known else None


PAGES = (Page("group/alert", "group_alert", page, is_costly=True, may_be_linked=False),)
