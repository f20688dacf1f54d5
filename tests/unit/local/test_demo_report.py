"""The demo's last words where the two sides differ; where they agree a real demo is looked at."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from streaming.local.demo import demo
from streaming.local.demo.report import DemoReport, show_report
from streaming.verify.verification import Verification
from streaming.views.output import output_of

STABLE = {"group_type": "classic", "state": "Stable", "protocol_type": "consumer", "members": 1}
OFFSET = {"committed_offset": 7, "leader_epoch": 0, "metadata": ""}


def group(**changes: Any) -> dict[str, Any]:
    return {
        **{"group_id": "billing", "traffic": "commits", "log_partition": 9},
        **{"tables": STABLE, "broker": STABLE},
        "offsets": [{"topic": "orders", "partition": 0, "tables": OFFSET, "broker": OFFSET}],
        **{"is_equal": True, **changes},
    }


def pending(**changes: Any) -> dict[str, Any]:
    return {
        **{"group_id": "fraud-check", "topic": "orders", "partition": 0, "producer_id": 3},
        **{"committed_offset": 7, "pending_offset": 9, "record_offset": 11},
        **{"broker": "UNSTABLE_OFFSET_COMMIT", "is_equal": True, **changes},
    }


EQUAL = DemoReport(
    groups=[group()],
    pending=[pending()],
    neighbour={
        **{"log_partition": 9, "group_id": "billing", "record_offset": 20},
        **{"pending_group_id": "fraud-check", "pending_record_offset": 11},
    },
    records={
        **{"read": 1_015, "applied": 1_000, "superseded": 5},
        **{"ignored": 4, "quarantined": 3, "pending": 3},
    },
    verification=Verification(),
)
OTHER = {**STABLE, "state": "Empty", "members": 0}
UNKNOWN = {"topic": "orders", "partition": 0, "tables": None, "broker": OFFSET}
RECORDS = " read {} 1,000 applied + 5 superseded + 4 ignored + 3 quarantined + 3 pending"


def shown(report: DemoReport, output: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The report; a table without its widths."""
    show_report(report, output_of(output), is_json=output == "json")
    return " ".join(capsys.readouterr().out.split())


def test_equal_sides(capsys: pytest.CaptureFixture[str]) -> None:
    assert EQUAL.is_equal
    text = shown(EQUAL, "text", capsys)
    assert f"1,015 records{RECORDS.format('=')}" in text
    assert "verify: equal" in text


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        (
            {"groups": [group(broker=OTHER, offsets=[UNKNOWN], is_equal=False)]},
            "Stable ≠ Empty 1 ≠ 0 - 7 false",
        ),
        ({"pending": [pending(broker=None, is_equal=False)]}, ""),
        ({"records": {**EQUAL.records, "read": 1_016}}, f"1,016 records{RECORDS.format('≠')}"),
        ({"verification": Verification(behind={9: 1})}, ""),
    ],
)
def test_any_difference_counts_and_is_shown(
    changes: dict[str, Any], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report = replace(EQUAL, **changes)
    assert not report.is_equal
    assert not json.loads(shown(report, "json", capsys))["is_equal"]
    assert part in shown(report, "text", capsys)


def test_ctrl_c_says_what_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo.run_demo(seconds=40, folder=tmp_path)
    assert "stopping the query, the groups and the broker ..." in capsys.readouterr().err
