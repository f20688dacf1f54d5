"""Plays scenarios, and compares statuses, causes and alerts with the expectations."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from coordinator_state.insight.group_status import Cause, Status
from streaming.alerts.alert import Alert, AlertKey, AlertState, NoticeKind
from streaming.alerts.alert_states import due, next_alerts
from streaming.alerts.facts import Facts
from streaming.alerts.rules import AlertRules, TablesStale
from streaming.errors import ConfigurationError
from streaming.local.scenario.play import Cluster, Look, play
from streaming.local.scenario.scenario import BEGIN, LOOK_S, Expectation, Scenario
from streaming.views.diagnosis import explained

_NOBODY: Final = "there is no such group"


class GroupLook(NamedTuple):
    """What the tables and the rules say about a group at a moment.

    Attributes:
        t: the seconds since the begin.
        status: its status; None if the group does not exist.
        reason: the reason of the status.
        lag: its lag, None if unknown.
        firing: the rules with an alert about the group that fires.
        notices: the notices about it since the last look.
    """

    t: int
    status: Status | None
    reason: str
    lag: int | None
    firing: frozenset[str]
    notices: int


class Failure(NamedTuple):
    """An expectation that does not hold, at its first wrong look."""

    scenario: str
    group: str
    at: datetime
    after_s: int
    expected: str
    actual: str

    @property
    def line(self) -> str:
        """The failure in one line."""
        after = str(timedelta(seconds=self.after_s))
        return (
            f"{self.scenario}: group {self.group} after {after} ({self.at:%H:%M:%SZ}): expected "
            f"{self.expected}, got {self.actual}"
        )


@dataclass(slots=True)
class Judged:
    """A scenario after it was played.

    Attributes:
        scenario: the scenario.
        looks: the looks at each group, by its name in the file.
        causes: the first causes of `explain`, by the number of the expectation and the moment.
        failures: the expectations that do not hold.
    """

    scenario: Scenario
    looks: dict[str, list[GroupLook]] = field(default_factory=lambda: defaultdict(list))
    causes: dict[tuple[int, int], Cause | None] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def looks_at(self, expectation: Expectation) -> list[GroupLook]:
        """The looks in the window of an expectation."""
        looks = self.looks[self.scenario.group_of(expectation)]
        return [look for look in looks if expectation.has(look.t) and look.t <= self._last_s]

    @property
    def _last_s(self) -> int:
        return self.scenario.lasts_s // LOOK_S * LOOK_S


class Alarms:
    """The alerts of rules, look after look.

    Raises:
        ConfigurationError: a rule has SQL, which needs Delta tables.
    """

    def __init__(self, rules: AlertRules) -> None:
        with_sql = [rule.name for rule in rules.rules if rule.sql is not None]
        if with_sql:
            raise ConfigurationError(
                f"rule {with_sql[0]}: a scenario has no tables for SQL; write them with simulate "
                "--scenario, and test the rule with alert test --tables"
            )
        self._rules = rules
        self._alerts: dict[AlertKey, Alert] = {}

    def at(self, look: Look) -> tuple[Mapping[str, Collection[str]], Counter[str]]:
        """The rules that fire, and the number of notices, by group."""
        facts = Facts(look.reader, look.at, evaluation=look.evaluation)
        findings = {rule.name: facts.findings(rule) for rule in self._rules.rules}
        findings[TablesStale.name] = facts.tables_stale()
        self._alerts = next_alerts(self._alerts, findings, self._rules, look.at, facts.state_of)
        firing: dict[str, set[str]] = defaultdict(set)
        notices: Counter[str] = Counter()
        for key, alert in self._alerts.items():
            if alert.state is AlertState.FIRING and alert.muted_by is None:
                firing[alert.group_id or ""].add(alert.rule)
            sent = alert
            for sink, kind in due(alert, self._rules, look.at).items():
                sent = sent.after_sending(sink, look.at)
                if kind is NoticeKind.REPEAT and self._rules.sinks[sink].is_kept_alive:
                    continue
                notices[alert.group_id or ""] += sink == next(iter(self._rules.sinks))
            self._alerts[key] = sent
        return firing, notices


def judge(
    scenarios: Sequence[Scenario],
    rules: AlertRules,
    *,
    begin: datetime = BEGIN,
    on_look: Callable[[Look, Cluster], None] = lambda _look, _cluster: None,
) -> list[Judged]:
    """Play scenarios, and compare; those with the same `run` are played as one cluster.

    Args:
        scenarios: the scenarios, each with another name.
        rules: the alert rules.
        begin: the first moment.
        on_look: called at each look.

    Raises:
        ConfigurationError: a scenario or a rule cannot be played.
    """
    judged = {scenario.name: Judged(scenario) for scenario in scenarios}
    by_run: dict[str, list[Scenario]] = defaultdict(list)
    for scenario in scenarios:
        by_run[f"{scenario.run!r} {scenario.lasts_s}"].append(scenario)
    for together in by_run.values():
        _play(together, judged, rules, begin, on_look)
    for each in judged.values():
        each.failures += _failures(each, begin)
    return list(judged.values())


def _play(
    scenarios: Sequence[Scenario],
    judged: Mapping[str, Judged],
    rules: AlertRules,
    begin: datetime,
    on_look: Callable[[Look, Cluster], None],
) -> None:
    cluster, alarms = Cluster(scenarios, begin), Alarms(rules)
    for look in play(cluster):
        rows = {row["group_id"]: row for row in look.evaluation.statuses.to_pylist()}
        firing, notices = alarms.at(look)
        for (scenario, group), name in cluster.names.items():
            row = rows.get(name)
            judged[scenario].looks[group].append(
                GroupLook(
                    t=look.t,
                    status=None if row is None else Status(row["status"]),
                    reason=_NOBODY if row is None else row["reason"],
                    lag=None if row is None else row["lag"],
                    firing=frozenset(firing.get(name, ())),
                    notices=notices[name],
                )
            )
        for played in scenarios:
            _explain(judged[played.name], look, cluster)
        on_look(look, cluster)


def _explain(judged: Judged, look: Look, cluster: Cluster) -> None:
    """Note the first causes at the first look with the right status, and at the last look."""
    scenario = judged.scenario
    for number, expectation in enumerate(scenario.expect):
        if expectation.cause is None or not expectation.has(look.t):
            continue
        group = scenario.group_of(expectation)
        is_right = expectation.status is None or judged.looks[group][-1].status in (
            expectation.status
        )
        is_first = is_right and not any(key[0] == number for key in judged.causes)
        end_s = scenario.lasts_s + 1 if expectation.to_s is None else expectation.to_s
        if is_first or look.t + LOOK_S >= end_s:
            explanation = explained(look.reader, cluster.names[scenario.name, group], at=look.at)
            evidence = [] if explanation is None else explanation.evidence
            judged.causes[number, look.t] = evidence[0].cause if evidence else None


def _failures(judged: Judged, begin: datetime) -> Iterator[Failure]:
    scenario = judged.scenario
    for number, expectation in enumerate(scenario.expect):
        looks = judged.looks_at(expectation)
        causes = {t: cause for (n, t), cause in judged.causes.items() if n == number}
        for t, expected, actual in _wrong(expectation, looks, causes):
            yield Failure(
                scenario=scenario.name,
                group=scenario.group_of(expectation),
                at=begin + timedelta(seconds=t),
                after_s=t,
                expected=expected,
                actual=actual,
            )


def _wrong(
    expectation: Expectation, looks: Sequence[GroupLook], causes: Mapping[int, Cause | None]
) -> Iterator[tuple[int, str, str]]:
    """The moment, the expected and the actual value of each key that does not hold."""
    settled = [look for look in looks if look.t >= expectation.from_s + expectation.within_s]
    if expectation.status is not None:
        right = [*expectation.status]
        yield from _first(
            settled,
            lambda look: look.status in right,
            f"status {_names(right)}",
            lambda look: f"{'none' if look.status is None else look.status.value}: {look.reason}",
        )
    if expectation.reason is not None:
        text = expectation.reason
        yield from _first(
            settled,
            lambda look: text in look.reason,
            f"a reason with {text!r}",
            lambda look: look.reason,
        )
    if expectation.alerts is not None:
        rules = {*expectation.alerts}
        yield from _first(
            settled,
            lambda look: look.firing == rules,
            f"alerts {', '.join(sorted(rules)) or 'none'}",
            lambda look: f"{', '.join(sorted(look.firing)) or 'none'}: {look.reason}",
        )
    if expectation.cause is not None:
        for t, cause in sorted(causes.items()):
            if cause not in expectation.cause:
                actual = "none" if cause is None else cause.value
                yield t, f"cause {_names(expectation.cause)}", actual
                break
    notices = sum(look.notices for look in looks)
    if expectation.notices is not None and notices != expectation.notices:
        first = next((look for look in looks if look.notices), looks[0])
        status = "none" if first.status is None else first.status.value
        yield (
            first.t,
            f"{expectation.notices} notices",
            f"{notices}, the first at {status}: {first.reason}",
        )


def _first(
    looks: Sequence[GroupLook],
    is_right: Callable[[GroupLook], bool],
    expected: str,
    actual: Callable[[GroupLook], str],
) -> Iterator[tuple[int, str, str]]:
    """The first wrong look, with the share of wrong ones."""
    wrong = [look for look in looks if not is_right(look)]
    if wrong:
        share = f" ({len(wrong)} of {len(looks)} looks)"
        yield wrong[0].t, expected, actual(wrong[0]) + share


def _names(values: Iterable[Status | Cause]) -> str:
    return " or ".join(value.value for value in values)
