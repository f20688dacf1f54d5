"""The report of the benches, and the measure of how far behind a query is."""

from __future__ import annotations

import json
from pathlib import Path

from bench.report import BENCHES, QUICK, TARGETS, read_findings, write_report
from bench.sustained import micro_batches_behind

FINDINGS = {
    "backfill": {"warm_s": 10.0, "warm_times_broker": 3.0, "peak_memory_mb": 2048.0},
    "backfill_100m": {"warm_s": 60.0},
    "freshness": {"p50_s": 3.0},
}


def test_figures_stand_beside_their_targets(tmp_path: Path) -> None:
    for name, figures in FINDINGS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(figures))
    (tmp_path / "freshness.log").write_text("a line\nmeasured  found\nacknowledged  3.00 s\n")

    assert QUICK.keys() <= BENCHES.keys()
    assert read_findings(tmp_path) == FINDINGS
    write_report(tmp_path)

    rows = json.loads((tmp_path / "report.json").read_text())
    assert len(rows) == len(TARGETS)
    measured = {
        row["what"]: (row["measured"], row["share_of_target"], row["is_met"])
        for row in rows
        if "measured" in row
    }
    assert measured == {
        "plain commits, warm": ("3.00 x broker's load", 1.88, True),
        "memory, plain commits, cold": ("2,048 MB", 1.0, True),
        "100 M and 20 M commits, warm": ("6.0 x the time", 0.92, False),
        "acknowledged to readable, p50": ("3.00 s", 0.2, False),
    }
    text = (tmp_path / "report.md").read_text()
    assert "| acknowledged to readable, p50 | at most 0.60 s | 3.00 s | no |" in text
    assert "| idle, of one core | at most 2.0 % | not measured |  |" in text
    assert "bar [1.88, 0.2, 1.0, 0.92]" in text
    assert '"acknowledged to readable, p50 (missed)"' in text
    assert text.endswith("```\nmeasured  found\nacknowledged  3.00 s\n```\n")


def test_a_query_is_as_many_micro_batches_behind_as_what_is_there_took_to_come() -> None:
    acknowledged = [(1.0, 10), (2.0, 20), (3.0, 30)]
    # What had been acknowledged when the micro-batch before ended is there.
    assert micro_batches_behind(acknowledged, [(1.5, 0), (2.5, 10), (3.5, 20)]) == [1, 1]
    # What was there at the end itself.
    assert micro_batches_behind(acknowledged, [(0.5, 0), (4.0, 30)]) == [0, 0]
    assert micro_batches_behind(acknowledged, [(1.5, 0), (2.5, 10), (3.0, 10), (3.5, 10)]) == [
        *(1, 2, 3)
    ]
