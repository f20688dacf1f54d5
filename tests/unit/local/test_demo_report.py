"""The demo's last words where the two sides differ; where they agree a real demo is looked at."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from streaming.cli.local import show_report
from streaming.local.demo import demo
from streaming.local.demo.report import (
    DemoReport,
    Section,
    group_row,
    is_accounted_for,
    read_report,
    records_line,
)
from streaming.tables.reader import TableReader
from streaming.verify.answer import AnswerKey, Answers
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verification import Verification, compare
from streaming.views.output import output_of
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

STABLE = {"group_type": "classic", "state": "Stable", "protocol_type": "consumer"}
BILLING = AnswerKey("group", "billing")
BROKER: Answers = {
    BILLING: STABLE,
    AnswerKey("member", "billing", member_id="m"): {},
    AnswerKey("offset", "billing", "orders", 0): {"committed_offset": 7},
    AnswerKey("pending", "billing", "orders", 0): {},
    AnswerKey("group", "shipping"): STABLE,
}
EQUAL = compare(BROKER, BROKER, BROKER)
DIFFERENT = compare(BROKER, {**BROKER, BILLING: {**STABLE, "state": "Empty"}}, BROKER)
RECORDS = {
    **{"read": 1_015, "applied": 1_000, "superseded": 5},
    **{"ignored": 4, "quarantined": 3, "pending": 3},
}


def report_of(verification: Verification) -> DemoReport:
    rows = [group_row(group_id, BROKER, verification) for group_id in ("billing", "shipping")]
    return DemoReport(
        sections=[Section("groups", "Groups:", ("group", "state", "members", "equal"), rows)],
        facts={"records": RECORDS},
        lines=[records_line(RECORDS)],
        verification=verification,
    )


def shown(report: DemoReport, output: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The report; a table without its widths."""
    show_report(report, output_of(output))
    return " ".join(capsys.readouterr().out.split())


def test_a_group_has_the_answers_of_its_coordinator() -> None:
    assert group_row("billing", BROKER, EQUAL) == {
        **{"group": "billing", "type": "classic", "state": "Stable"},
        **{"members": 1, "offsets": 1, "pending": 1, "equal": True},
    }
    gone = group_row("trial", BROKER, EQUAL)
    assert (gone["type"], gone["state"], gone["members"]) == (None, None, None)


def test_equal_sides(capsys: pytest.CaptureFixture[str]) -> None:
    report = report_of(EQUAL)
    assert report.is_equal
    text = shown(report, "text", capsys)
    assert "Groups: group state members equal billing Stable 1 true shipping Stable 0 true" in text
    assert text.endswith(
        "verify: equal: 2 groups, 1 committed offsets, 1 pending offsets, 1 members"
    )


def test_every_record_has_an_outcome() -> None:
    outcomes = "1,000 applied + 5 superseded + 4 ignored + 3 quarantined + 3 pending"
    assert is_accounted_for(RECORDS)
    assert records_line(RECORDS) == f"load_progress: 1,015 records read = {outcomes}"
    one_more = {**RECORDS, "read": 1_016}
    assert not is_accounted_for(one_more)
    assert records_line(one_more) == f"load_progress: 1,016 records read ≠ {outcomes}"


@pytest.mark.parametrize(
    ("verification", "changes", "part"),
    [
        (DIFFERENT, {}, "billing Stable 1 false"),
        (DIFFERENT, {}, "answer field broker tables group billing state Stable Empty"),
        (Verification(behind={9: 1}), {}, "verify: behind: the tables lack 1 record offsets"),
        (EQUAL, {"is_accounted_for": False}, ""),
    ],
)
def test_any_difference_counts_and_is_shown(
    verification: Verification,
    changes: dict[str, Any],
    part: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = replace(report_of(verification), **changes)
    assert not report.is_equal
    assert part in shown(report, "text", capsys)
    document = json.loads(shown(report, "json", capsys))
    assert not document["is_equal"]
    assert document["verify"]["is_equal"] == verification.is_equal


def test_the_last_comparison_replaces_the_one_before(tmp_path: Path) -> None:
    """Of a group that differs now, no answer stays equal; of another, none stays open."""
    tables = create_tables(tmp_path)
    groups = [{"group_id": name, **STABLE} for name in ("billing", "shipping")]
    apply_micro_batch(tables, progress=[{}], groups=groups)
    reader = TableReader(tables)
    answers = TableAnswers(reader).answers()
    other = {**answers, BILLING: {**answers[BILLING], "state": "Empty"}}

    class Broker:
        def answers(self, **_options: object) -> Answers:
            return other

    before = compare(answers, answers, answers)
    before.moving.add(AnswerKey("group", "shipping"))
    before.equal.remove(AnswerKey("group", "shipping"))
    verification = read_report(cast("BrokerAnswers", Broker()), reader, before).verification
    assert list(verification.differing) == [BILLING]
    assert verification.equal == {AnswerKey("group", "shipping")}
    assert not verification.moving


def test_ctrl_c_says_what_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_run", interrupted)
    with pytest.raises(KeyboardInterrupt), demo.run_demo(seconds=40, folder=tmp_path):
        pass
    assert "stopping the query, the groups and the broker ..." in capsys.readouterr().err
