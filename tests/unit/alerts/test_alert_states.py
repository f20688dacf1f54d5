"""Alerts from state to state, and who is told when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streaming.alerts.alert import AlertKey, AlertState
from tests.support.tables.watched_rules import BEHIND, START, WatchedRules


def test_an_alert_fires_and_is_resolved() -> None:
    rules = WatchedRules()
    rules.look(0, BEHIND)
    rules.look(1, BEHIND)
    rules.look(2)
    rules.look(3)
    assert rules.told == [(0, "behind", "chat", "firing"), (2, "behind", "chat", "resolved")]
    alert = rules.alerts[BEHIND]
    assert (alert.since, alert.fired_at) == (START, START)
    assert alert.resolved_at == START + timedelta(seconds=2)
    assert alert.reason == "the condition no longer holds"
    rules.look(86_403)
    assert rules.alerts == {}


def test_it_has_to_hold_for_some_time() -> None:
    rules = WatchedRules(rule={"for": "10s"})
    rules.look(0, BEHIND)
    assert rules.state() is AlertState.PENDING
    rules.look(5)
    assert rules.state() is None
    rules.look(6, BEHIND)
    rules.look(15, BEHIND)
    assert rules.told == []
    rules.look(16, BEHIND)
    assert rules.told == [(16, "behind", "chat", "firing")]
    assert rules.alerts[BEHIND].since == START + timedelta(seconds=6)


def test_it_is_told_again() -> None:
    rules = WatchedRules(rule={"repeat": "1m"})
    for second in range(0, 130, 10):
        rules.look(second, BEHIND)
    assert [(at, word) for at, _, _, word in rules.told] == [
        (0, "firing"),
        (60, "again"),
        (120, "again"),
    ]
    never = WatchedRules(rule={"repeat": "off"})
    for second in range(0, 100_000, 10_000):
        never.look(second, BEHIND)
    assert len(never.told) == 1


def test_what_is_not_known_changes_nothing() -> None:
    rules = WatchedRules()
    rules.look(0, unknown=[BEHIND])
    assert rules.alerts == {}
    rules.look(1, BEHIND)
    rules.look(2, unknown=[BEHIND])
    assert rules.state() is AlertState.FIRING
    rules.step({"behind": None}, START + timedelta(seconds=3), 3)
    assert rules.state() is AlertState.FIRING
    rules.look(4)
    assert rules.state() is AlertState.RESOLVED
    assert len(rules.told) == 2


def test_a_sink_that_was_away_hears_of_what_it_is_to_know() -> None:
    sinks = {"chat": {"type": "stdout"}, "pager": {"type": "stdout"}}
    rules = WatchedRules(sinks=sinks)
    rules.broken = {"pager"}
    rules.look(0, BEHIND)
    rules.look(1, BEHIND)
    rules.broken = set()
    rules.look(2, BEHIND)
    rules.broken = {"pager"}
    rules.look(3)
    # Nobody knows in between that it fires again.
    rules.look(4, BEHIND)
    rules.look(5)
    rules.broken = set()
    rules.look(6)
    assert [(at, word) for at, _, sink, word in rules.told if sink == "pager"] == [
        (2, "firing"),
        (6, "resolved"),
    ]
    assert [word for _, _, sink, word in rules.told if sink == "chat"] == [
        *("firing", "resolved", "firing", "resolved"),
    ]


def test_who_never_heard_of_it_does_not_hear_of_its_end() -> None:
    rules = WatchedRules()
    rules.broken = {"chat"}
    rules.look(0, BEHIND)
    rules.look(1)
    rules.broken = set()
    rules.look(2)
    assert rules.told == []


def test_a_silence_mutes_what_fires_and_not_its_end() -> None:
    silence = {"groups": "g", "until": START + timedelta(seconds=10)}
    rules = WatchedRules(silences=[silence])
    rules.look(0, BEHIND, AlertKey("behind", "h"))
    assert [one[0] for one in rules.told] == [0]
    assert rules.muted_by() == "silence until 2026-11-22T00:00:10+00:00"
    rules.look(10, BEHIND)
    assert rules.muted_by() is None
    assert (10, "behind", "chat", "firing") in rules.told
    late = {"from": START + timedelta(seconds=5), "until": START + timedelta(seconds=50)}
    rules = WatchedRules(silences=[late])
    rules.look(0, BEHIND)
    rules.look(6, BEHIND)
    rules.look(7)
    assert [word for *_, word in rules.told] == ["firing", "resolved"]


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
    assert ((0, "behind", "chat", "firing") in rules.told) is not is_muted
    # What mutes is not muted by it.
    assert all(alert.muted_by is None for alert in rules.alerts.values() if alert.rule == "stopped")
    rules.look(1, BEHIND)
    assert any(told[1:] == ("behind", "chat", "firing") for told in rules.told)


def test_alerts_do_not_mute_each_other() -> None:
    names = ["critical-a", "critical-b", "other"]
    rules = WatchedRules(names=names, inhibit=[{"when": "critical-*", "mute": "*"}])
    rules.look(0, *(AlertKey(name, "g") for name in names))
    assert [rule for _, rule, *_ in rules.told] == ["critical-a", "critical-b"]


def test_a_sink_that_there_is_no_more_keeps_nothing() -> None:
    rules = WatchedRules()
    rules.look(0, BEHIND)
    rules.rules = WatchedRules(sinks={"new": {"type": "stdout"}}).rules
    rules.look(1)
    rules.look(2 + 86_400)
    assert rules.alerts == {}


def test_a_sink_that_is_away_for_good_keeps_nothing_for_ever() -> None:
    rules = WatchedRules()
    rules.look(0, BEHIND)
    rules.broken = {"chat"}
    rules.look(1)
    rules.look(6 * 86_400)
    assert rules.state() is AlertState.RESOLVED
    rules.look(8 * 86_400)
    assert rules.alerts == {}


def test_alertmanager_hears_of_what_it_knows_though_it_is_muted_now() -> None:
    sinks = {"am": {"type": "alertmanager", "url": "http://localhost:9093"}}
    late = {"from": START + timedelta(seconds=5), "until": START + timedelta(hours=1)}
    rules = WatchedRules(sinks=sinks, silences=[late])
    other = AlertKey("behind", "h")
    for second in (0, 60, 120):
        rules.look(second, BEHIND, *([other] if second else []))
    assert [at for at, *_ in rules.told] == [0, 60, 120]


def test_a_rule_that_goes_resolves_its_alerts() -> None:
    rules = WatchedRules(names=["behind", "other"])
    rules.look(0, BEHIND)
    rules.rules = WatchedRules(names=["other"]).rules
    rules.look(1)
    assert rules.told[-1:] == [(1, "behind", "chat", "resolved")]
    assert rules.alerts[BEHIND].reason == "the rule was removed"


def test_alertmanager_hears_of_it_every_minute() -> None:
    sinks = {"am": {"type": "alertmanager", "url": "http://localhost:9093"}}
    rules = WatchedRules(sinks=sinks, rule={"repeat": "off"})
    for second in (0, 30, 60, 90, 120):
        rules.look(second, BEHIND)
    assert [at for at, *_ in rules.told] == [0, 60, 120]


def _by_status(**options: Any) -> WatchedRules:
    return WatchedRules(rule={"status": ["STOP", "HANGING_TRANSACTION"], **options})


def test_an_alert_that_gets_worse_fires_on_and_is_told() -> None:
    rules = _by_status()
    rules.look(0, BEHIND, status="STOP")
    rules.look(100, BEHIND, status="STOP")
    rules.look(200, BEHIND, status="HANGING_TRANSACTION")
    rules.look(300, BEHIND, status="HANGING_TRANSACTION")
    rules.look(400)
    assert [(at, word) for at, _, _, word in rules.told] == [
        *((0, "firing"), (200, "changed"), (400, "resolved")),
    ]


def test_an_alert_has_the_newest_status_and_reason() -> None:
    rules = _by_status()
    rules.look(0, BEHIND, status="STOP")
    rules.look(200, BEHIND, status="HANGING_TRANSACTION")
    alert = rules.alerts[BEHIND]
    assert (alert.state, alert.reason) == (AlertState.FIRING, "HANGING_TRANSACTION holds")
    assert (alert.group_status, alert.change) == ("HANGING_TRANSACTION", "was STOP")
    assert (alert.fired_at, alert.status_since) == (START, START + timedelta(seconds=200))


def test_a_status_that_goes_back_and_forth_is_told_once_a_minute() -> None:
    rules = _by_status()
    for second in range(121):
        rules.look(second, BEHIND, status=["STOP", "HANGING_TRANSACTION"][second % 2])
    assert [(at, word) for at, _, _, word in rules.told] == [
        *((0, "firing"), (60, "changed"), (120, "changed")),
    ]


def test_a_sink_that_missed_the_change_is_told_of_it_once() -> None:
    sinks = {"chat": {"type": "stdout"}, "pager": {"type": "stdout"}}
    rules = WatchedRules(sinks=sinks, rule={"status": "STOP"})
    rules.look(0, BEHIND, status="STOP")
    rules.broken = {"pager"}
    rules.look(200, BEHIND, status="STALL")
    rules.broken = set()
    for second in (300, 400):
        rules.look(second, BEHIND, status="STALL")
    assert [(at, word) for at, _, sink, word in rules.told if sink == "pager"] == [
        *((0, "firing"), (300, "changed")),
    ]


def test_a_change_is_no_news_to_a_rule_of_measures() -> None:
    """`lag: "> 0"` fires, whatever the status is; the alert has it all the same."""
    rules = WatchedRules()
    rules.look(0, BEHIND, status="OK")
    rules.look(200, BEHIND, status="WARN")
    assert [word for *_, word in rules.told] == ["firing"]
    assert rules.alerts[BEHIND].group_status == "WARN"


def test_an_alert_of_an_earlier_release_has_no_news() -> None:
    """It is stored without a status."""
    rules = _by_status()
    rules.look(0, BEHIND)
    rules.look(200, BEHIND, status="STOP")
    assert [word for *_, word in rules.told] == ["firing"]


def test_a_muted_change_is_told_when_the_silence_ends() -> None:
    silence = {"from": START + timedelta(seconds=100), "until": START + timedelta(seconds=300)}
    rules = WatchedRules(silences=[silence], rule={"status": "STOP"})
    rules.look(0, BEHIND, status="STOP")
    rules.look(200, BEHIND, status="STALL")
    assert len(rules.told) == 1
    rules.look(300, BEHIND, status="STALL")
    assert rules.told[1:] == [(300, "behind", "chat", "changed")]
