"""`run --openlineage`: its options, its key and the package that it needs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from streaming.errors import ConfigurationError
from streaming.run.lineage import lineage_reporter
from streaming.run.settings import RunSettings
from tests.support.clients.command_line import call

NEEDED: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:9", "tables": "tables"}
RUN = ("run", "--bootstrap-servers", "127.0.0.1:9", "--tables", "tables")
URL = "http://marquez:5000"


def test_without_the_option_nothing_is_reported() -> None:
    assert lineage_reporter(RunSettings(**NEEDED)) is None


def test_a_single_load_has_time_to_send_all_groups() -> None:
    beside, after = (
        lineage_reporter(RunSettings(**NEEDED, openlineage=URL, available_now=available_now))
        for available_now in (False, True)
    )
    assert beside is not None
    assert after is not None
    assert beside.round_s < after.round_s


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("marquez:5000", "it must begin with http:// or https:// and a host"),
        ("file:///events.json", "it must begin with http:// or https:// and a host"),
        ("http://[hush", "it must begin with http:// or https:// and a host"),
        (
            "http://me:hush@marquez:5000",
            "it must not contain a user or password: set OPENLINEAGE_API_KEY",
        ),
    ],
)
def test_the_address_is_checked_and_not_shown(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        RunSettings.checked(**NEEDED, openlineage=url)
    assert str(refused.value).startswith(f"--openlineage: {said}")
    assert "hush" not in str(refused.value)


def test_a_missing_key_file_ends_the_command(tmp_path: Path) -> None:
    file = tmp_path / "key"
    done = call(*RUN, "--openlineage", URL, "--openlineage-key-file", str(file), exit_code=2)
    assert done.stderr == (
        f"Error: --openlineage-key-file: cannot read {str(file)!r}: No such file or directory\n"
    )


def test_a_missing_package_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("streaming.lineage")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openlineage", None)
    for name in [name for name in sys.modules if name.startswith("openlineage.")]:
        monkeypatch.delitem(sys.modules, name)
    done = call(*RUN, "--openlineage", URL, exit_code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: --openlineage needs openlineage")
    assert line.endswith("pip install 'coordinator-state[streaming,lineage]'")
