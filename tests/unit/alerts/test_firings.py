"""Firings of a replay: all groups at once, or one group alone."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.insight.group_status import StatusRules
from streaming.alerts.alert import Alert, AlertKey, AlertState
from streaming.alerts.firings import firings
from streaming.alerts.replay import Change, replay
from streaming.alerts.rules import AlertRules
from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.tables import reader as reader_module
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND, DashboardTables
from tests.support.tables.status_tables import NOW, create_status_tables

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


def test_a_rule_with_a_status_evaluates_only_groups_that_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = create_status_tables(tmp_path)
    monkeypatch.setattr(reader_module, "utc_now", lambda: NOW)
    last, begin = TableReader(tables), NOW - timedelta(seconds=30)
    evaluated: list[object] = []

    with_history = TableReader.with_history

    def noted(reader: TableReader, group_ids: Any, **options: Any) -> TableReader:
        evaluated.append(group_ids)
        return with_history(reader, group_ids=group_ids, **options)

    monkeypatch.setattr(TableReader, "with_history", noted)

    def replayed(*rules: dict[str, Any], **options: Any) -> tuple[object, list[Change]]:
        parsed = AlertRules.model_validate({"rules": rules})
        changes = [*replay(parsed, last, since=begin, step=timedelta(seconds=10), **options)]
        return evaluated.pop(), changes

    moved = {"name": "moved", "status": ["REWIND"], "by": "topic"}
    lost, behind = {"name": "lost", "status": "DATA_LOSS"}, {"name": "behind", "lag": "> 5"}
    # `run` has not evaluated.
    groups, changes = replayed(moved, lost)
    assert (groups, {change.alert.group_id for change in changes}) == (None, {"back", "old"})
    evaluations = StatusEvaluation(open_for_writing(tables, "test"))
    for at in (begin, NOW):
        evaluations.keep(Evaluation.of(last, at=at))
    assert replayed(moved, lost) == ({"back", "old"}, changes)
    assert replayed(moved, lost, group_ids=["idle", "old"])[0] == {"old"}
    assert replayed({"name": "tables", "tables_behind": "> 1m"})[0] == set()
    assert replayed({"name": "gone", "status": "TOPIC_GONE"}) == (set(), [])
    # Other rules and limits may have findings of any group.
    assert replayed(moved, behind)[0] is None
    assert replayed(moved, status_rules=StatusRules())[0] is None
    begin -= timedelta(seconds=10)
    assert replayed(moved)[0] is None
    begin += timedelta(seconds=10)
    evaluations.keep(Evaluation.of(last, at=NOW, rules=StatusRules(stop_after_ms=1)))
    assert replayed(moved)[0] is None, "the recorded statuses are those of other limits"


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
    all_changes = list(replay(rules, last, since=since, step=step))
    assert {change.alert.rule for change in all_changes} == {"behind", "in-trouble", "stuck"}
    for group in (REWOUND, HOSTILE):
        alone = list(replay(rules, last, since=since, step=step, group_ids=[group]))
        assert alone == [row for row in all_changes if row.alert.group_id == group] != []
