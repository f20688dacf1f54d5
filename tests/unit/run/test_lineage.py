"""`run --openlineage`: its reporter, its key and the package that it needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streaming.run.jobs import lineage_reporter
from streaming.run.settings import RunSettings
from tests.support.clients.command_line import RUN, call

URL = "http://marquez:5000"


def test_a_single_load_has_time_to_send_all_groups() -> None:
    settings = RunSettings(bootstrap_servers="127.0.0.1:9", tables="tables")
    assert lineage_reporter(settings) is None
    reporters = [
        lineage_reporter(settings.model_copy(update={"openlineage": URL, "available_now": is_once}))
        for is_once in (False, True)
    ]
    assert [reporter and reporter.round_s for reporter in reporters] == [5.0, 60.0]


def test_a_missing_key_file_ends_the_command(tmp_path: Path) -> None:
    file = tmp_path / "key"
    result = call(*RUN, "--openlineage", URL, "--openlineage-key-file", str(file), exit_code=2)
    assert result.stderr == (
        f"Error: --openlineage-key-file: cannot read {str(file)!r}: No such file or directory\n"
    )


def test_a_missing_package_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(sys.modules):
        if name.startswith(("streaming.lineage", "openlineage.")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openlineage", None)
    (line,) = call(*RUN, "--openlineage", URL, exit_code=2).stderr.splitlines()
    assert line.startswith("Error: --openlineage needs openlineage")
    assert line.endswith("pip install 'coordinator-state[streaming,lineage]'")
