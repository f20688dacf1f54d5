"""Alerts from state to state, and who is told when."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from streaming.alerts.alert import AlertKey, AlertState
from streaming.alerts.rules import Rule
from tests.support.tables.watched_rules import BEHIND, START, WatchedRules

ALERTMANAGER = {"am": {"type": "alertmanager", "url": "http://localhost:9093"}}
HANGING = "HANGING_TRANSACTION"
BY_STATUS = {"rule": {"status": ["STOP", HANGING]}}
HOLDS = ""
"""The condition holds, and the status of the group is not known."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def silence(since: float, until: float) -> dict[str, Any]:
    return {"silences": [{"from": at(since), "until": at(until)}]}


def holding(*seconds: int) -> dict[int, str]:
    return dict.fromkeys(range(*seconds), HOLDS)


@pytest.mark.parametrize(
    ("options", "statuses", "notices"),
    [
        ({}, {0: HOLDS, 1: HOLDS, 2: None, 3: None}, {0: "firing", 2: "resolved"}),
        (
            {"rule": {"for": "10s"}},
            *({0: HOLDS, 5: None, 6: HOLDS, 15: HOLDS, 16: HOLDS}, {16: "firing"}),
        ),
        ({"rule": {"repeat": "1m"}}, holding(0, 130, 10), {0: "firing", 60: "again", 120: "again"}),
        ({"rule": {"repeat": "off"}}, holding(0, 100_000, 10_000), {0: "firing"}),
        # Alertmanager forgets an alert that is not sent again and again.
        (
            {"rule": {"repeat": "off"}, "sinks": ALERTMANAGER},
            *(holding(0, 121, 30), {0: "firing", 60: "again", 120: "again"}),
        ),
        # A lag around the limit is one alert.
        (
            {"rule": {"keep_firing_for": "1m"}},
            {**{second: [HOLDS, None][second % 2] for second in range(100)}, 158: None, 159: None},
            {0: "firing", 159: "resolved"},
        ),
        # A silence mutes an alert that fires, and not its end.
        (silence(0, 10), {0: HOLDS, 10: HOLDS}, {10: "firing"}),
        (silence(5, 50), {0: HOLDS, 6: HOLDS, 7: None}, {0: "firing", 7: "resolved"}),
        (
            {"rule": {"status": "STOP"}, **silence(100, 300)},
            *({0: "STOP", 200: "STALL", 300: "STALL"}, {0: "firing", 300: "changed"}),
        ),
        (
            BY_STATUS,
            {0: "STOP", 100: "STOP", 200: HANGING, 300: HANGING, 400: None},
            {0: "firing", 200: "changed", 400: "resolved"},
        ),
        # A status that goes back and forth is told once a minute.
        (
            BY_STATUS,
            {second: ["STOP", HANGING][second % 2] for second in range(121)},
            {0: "firing", 60: "changed", 120: "changed"},
        ),
        # An alert of an earlier release is stored without a status.
        (BY_STATUS, {0: HOLDS, 200: "STOP"}, {0: "firing"}),
        # The status is no news to a rule about the lag.
        ({}, {0: "OK", 200: "WARN"}, {0: "firing"}),
    ],
)
def test_the_notices_of_an_alert(
    options: dict[str, Any], statuses: dict[int, str | None], notices: dict[int, str]
) -> None:
    """By second: the status of a group while the condition holds, and what the sink is sent."""
    rules = WatchedRules(**options)
    for second, status in statuses.items():
        rules.look(second, *([] if status is None else [BEHIND]), status=status or None)
    assert [(second, word) for second, _, _, word in rules.sent] == list(notices.items())


def test_an_alert_has_the_times_of_its_states() -> None:
    """By default it ends a minute after its condition."""
    rule = Rule.model_validate({"name": "behind", "lag": "> 0"})
    rules = WatchedRules(rule={"keep_firing_for": rule.keep_firing_for})
    rules.look(0, BEHIND)
    rules.look(10)
    assert (rules.state(), rules.alerts[BEHIND].condition_ended_at) == (AlertState.FIRING, at(10))
    rules.look(20, BEHIND)
    assert rules.alerts[BEHIND].condition_ended_at is None
    for second in (30, 89, 90):
        assert rules.state() is AlertState.FIRING
        rules.look(second)
    alert = rules.alerts[BEHIND]
    assert (alert.state, alert.condition_ended_at) == (AlertState.RESOLVED, None)
    assert (alert.since, alert.fired_at, alert.resolved_at) == (START, START, at(90))
    assert alert.reason == "the condition no longer holds"
    rules.look(90 + 86_401)
    assert rules.alerts == {}


def test_what_is_not_known_changes_nothing() -> None:
    rules = WatchedRules()
    rules.look(0, unknown=[BEHIND])
    assert rules.alerts == {}
    rules.look(1, BEHIND)
    rules.look(2, unknown=[BEHIND])
    assert rules.state() is AlertState.FIRING
    rules.step({"behind": None}, at(3), 3)
    assert rules.state() is AlertState.FIRING
    rules.look(4)
    assert rules.state() is AlertState.RESOLVED
    assert len(rules.sent) == 2


def test_a_silence_mutes_the_alerts_of_its_groups() -> None:
    rules = WatchedRules(silences=[{"groups": "g", "until": at(10)}])
    rules.look(0, BEHIND, AlertKey("behind", "h"))
    assert [second for second, *_ in rules.sent] == [0]
    assert rules.muted_by() == "silence until 2026-11-22T00:00:10+00:00"
    rules.look(10, BEHIND)
    assert rules.muted_by() is None


@pytest.mark.parametrize(
    ("equal", "others", "is_muted"),
    [
        (["group_id"], [AlertKey("stopped", "g")], True),
        (["group_id"], [AlertKey("stopped", "h")], False),
        ([], [AlertKey("stopped", "h")], True),
        (["group_id"], [], False),
    ],
)
def test_another_alert_inhibits(equal: list[str], others: list[AlertKey], is_muted: bool) -> None:
    inhibit = [{"when": "stop*", "mute": "*", "equal": equal}]
    rules = WatchedRules(names=["behind", "stopped"], inhibit=inhibit)
    rules.look(0, BEHIND, *others)
    assert (rules.muted_by() == "alert stopped") is is_muted
    assert ((0, "behind", "chat", "firing") in rules.sent) is not is_muted
    # What mutes is not muted by it.
    assert all(alert.muted_by is None for alert in rules.alerts.values() if alert.rule == "stopped")
    rules.look(1, BEHIND)
    assert any(notice[1:] == ("behind", "chat", "firing") for notice in rules.sent)


def test_alerts_do_not_mute_each_other() -> None:
    names = ["critical-a", "critical-b", "other"]
    rules = WatchedRules(names=names, inhibit=[{"when": "critical-*", "mute": "*"}])
    rules.look(0, *(AlertKey(name, "g") for name in names))
    assert [rule for _, rule, *_ in rules.sent] == ["critical-a", "critical-b"]


@pytest.mark.parametrize(
    ("is_removed", "kept_at", "gone_at"), [(True, 2, 86_402), (False, 6 * 86_400, 8 * 86_400)]
)
def test_a_sink_that_is_gone_or_away_for_good_keeps_no_alert(
    is_removed: bool, kept_at: float, gone_at: float
) -> None:
    rules = WatchedRules()
    rules.look(0, BEHIND)
    if is_removed:
        rules.rules = WatchedRules(sinks={"new": {"type": "stdout"}}).rules
    else:
        rules.broken = {"chat"}
    rules.look(1)
    rules.look(kept_at)
    assert rules.state() is AlertState.RESOLVED
    rules.look(gone_at)
    assert rules.alerts == {}


def test_alertmanager_hears_of_what_it_knows_though_it_is_muted_now() -> None:
    rules = WatchedRules(sinks=ALERTMANAGER, **silence(5, 3_600))
    other = AlertKey("behind", "h")
    for second in (0, 60, 120):
        rules.look(second, BEHIND, *([other] if second else []))
    assert [at for at, *_ in rules.sent] == [0, 60, 120]


def test_a_rule_that_goes_resolves_its_alerts() -> None:
    rules = WatchedRules(names=["behind", "other"])
    rules.look(0, BEHIND)
    rules.rules = WatchedRules(names=["other"]).rules
    rules.look(1)
    assert rules.sent[-1:] == [(1, "behind", "chat", "resolved")]
    assert rules.alerts[BEHIND].reason == "the rule was removed"


def test_an_alert_has_the_newest_status_and_reason() -> None:
    rules = WatchedRules(**BY_STATUS)
    rules.look(0, BEHIND, status="STOP")
    rules.look(200, BEHIND, status="HANGING_TRANSACTION")
    alert = rules.alerts[BEHIND]
    assert (alert.state, alert.reason) == (AlertState.FIRING, "HANGING_TRANSACTION holds")
    assert (alert.group_status, alert.change) == ("HANGING_TRANSACTION", "was STOP")
    assert (alert.fired_at, alert.status_since) == (START, at(200))
