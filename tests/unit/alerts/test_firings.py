"""Firings of a replay: all groups at once, or one group alone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from streaming.alerts.alert import Alert, AlertKey, AlertState
from streaming.alerts.firings import firings
from streaming.alerts.replay import Change, replay
from streaming.alerts.rules import AlertRules
from streaming.tables.reader import TableReader
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND, DashboardTables

START = datetime(2026, 11, 22, tzinfo=timezone.utc)


def change(second: int, state: AlertState, group: str = "g") -> Change:
    at = START + timedelta(seconds=second)
    key = AlertKey("behind", group)
    return Change(at, Alert(key=key, severity="warning", state=state, since=at, reason=f"{second}"))


def test_a_firing_has_a_begin_and_an_end() -> None:
    pending, firing, resolved = AlertState
    folded = firings(
        [
            *(change(0, pending), change(5, firing), change(5, pending, "h"), change(9, resolved)),
            *(change(9, resolved, "h"), change(20, firing)),
        ]
    )
    assert [(row.at, row.resolved_at) for row in folded.rows] == [
        (START + timedelta(seconds=20), None),
        (START + timedelta(seconds=5), START + timedelta(seconds=9)),
    ]
    assert [row.alert.reason for row in folded.rows] == ["20", "5"]
    assert folded.too_short == 1


@pytest.mark.long
def test_a_replay_of_one_group_is_that_part_of_the_replay_of_all(
    dashboard_tables: DashboardTables,
) -> None:
    rules = AlertRules.model_validate(
        {
            "rules": [
                {"name": "behind", "lag": "> 500", "for": "10ms"},
                {"name": "in-trouble", "by": "partition", "status": ["REWIND", "WARN"]},
                {"name": "stuck", "status": ["HANGING_TRANSACTION"]},
            ]
        }
    )
    last = TableReader(dashboard_tables.folder)
    since = dashboard_tables.before - timedelta(milliseconds=50)
    step = (last.moment - since) / 8
    of_all = list(replay(rules, last, since=since, step=step))
    assert {change.alert.rule for change in of_all} == {"behind", "in-trouble", "stuck"}
    for group in (REWOUND, HOSTILE):
        alone = list(replay(rules, last, since=since, step=step, group_ids=[group]))
        assert alone == [row for row in of_all if row.alert.group_id == group] != []
