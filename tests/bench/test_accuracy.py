"""The bench of accuracy on minutes of three groups: its rows, and what each of the rules sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from click.testing import CliRunner

from bench.accuracy import bench

_HEALTHY: Final = """
lasts: 14m
topics: {orders: {rate: 100}}
groups: {app: {reads: orders, delay: 30s}}
expect: [{status: [OK, WARN], notices: 0}]
"""
_BROKEN: Final = """
lasts: 18m
topics: {orders: {rate: 100}}
groups: {app: {reads: orders, events: [{do: stop, from: 12m}]}}
expect:
  - {to: 12m, status: OK}
  - {from: 12m, within: 60s, status: STOP, cause: no_members}
  - {from: 14m, status: STOP}
"""
_WRONG: Final = """
lasts: 14m
topics: {orders: {rate: 100}}
groups: {app: {reads: orders}}
expect: [{from: 8m, status: STALL}]
"""


def test_the_rows_of_the_bench(tmp_path: Path) -> None:
    for name, text in (("healthy", _HEALTHY), ("broken", _BROKEN), ("wrong", _WRONG)):
        (tmp_path / f"{name}.yaml").write_text(text)
    answer = CliRunner().invoke(bench, ["--scenarios", str(tmp_path), "--output", "json"])
    assert answer.exit_code == 0, answer.output
    rows = [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
    ours, burrow, lag, alarms, figures, *late = rows
    delays = {"incidents_found": "1 of 2", "in_time": 1, "delay_median_s": 60, "delay_max_s": 60}
    assert ours == {"rules": "coordinator-state", "false_alarm_min_a_day": 0.0, **delays}
    assert (burrow["incidents_found"], burrow["delay_max_s"]) == ("1 of 2", 90)
    # The group is always 3,000 records behind, and the alert fires after five minutes.
    assert lag["rules"] == "lag > 1000 for 5m"
    assert alarms == {
        **{"scenario": "healthy", "coordinator-state": 0.0},
        **{"Burrow": alarms["Burrow"], "lag > 1000 for 5m": 9.0},
    }
    assert lag["false_alarm_min_a_day"] == round(9 / 14 * 1440, 1)
    assert figures == {
        **{"notices_a_day": 0.0, "causes_right": "1 of 1", "files": "1 healthy, 2 broken"},
    }
    columns = ("late_or_slowest", "expected", "delay_s", "allowed_s")
    assert [tuple(row[name] for name in columns) for row in late] == [
        ("broken", "STOP", 60, 60),
        ("wrong", "STALL", None, 60),
    ]
