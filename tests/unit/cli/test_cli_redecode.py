"""`coordinator-state redecode`."""

from __future__ import annotations

from pathlib import Path

import pytest

import streaming.run.redecode
from streaming.engine.redecode import Redecoded
from streaming.tables import folder
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.tables_folder import create_tables


def test_the_outcome_of_the_records_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    undecodable = {"record key: unknown record type 99": 5}
    outcome = Redecoded(applied=3, superseded=1, waiting={7: 2}, undecodable=undecodable, groups=2)
    monkeypatch.setattr(streaming.run.redecode, "redecode", lambda *_, **__: outcome)
    assert call("redecode", "--tables", "tables").stdout.splitlines() == [
        "4 quarantined records decoded: 3 applied to 2 groups, 1 superseded by later ones",
        "2 offset commits of log partition 7 can be decoded, but their outcome is unknown: "
        "reload that log partition with `coordinator-state reload`",
        "5 records stay in quarantine: record key: unknown record type 99",
    ]
    assert json_lines(call("redecode", "--tables", "tables", "--output", "json")) == [
        {"applied": 3, "superseded": 1, "waiting": {"7": 2}, "undecodable": undecodable}
        | {"groups": 2}
    ]


def test_an_empty_quarantine_needs_no_spark_and_no_other_run(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    assert call("redecode", "--tables", tables).stdout.startswith("0 quarantined records decoded")
    with folder.locked(tables):
        refused = call("redecode", "--tables", tables, exit_code=2)
    assert "another run is writing to" in refused.stderr


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    refused = call("redecode", "--tables", str(tmp_path / "nothing"), exit_code=2)
    assert str(tmp_path / "nothing") in refused.stderr
    assert not (tmp_path / "nothing").exists()
