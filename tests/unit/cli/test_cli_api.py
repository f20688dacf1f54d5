"""`coordinator-state api`, as the installed command."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.clients.installed_command import command_of
from tests.support.tables.dashboard_tables import create_dashboard_tables


def test_it_serves_the_api_until_it_is_interrupted(tmp_path: Path) -> None:
    tables = create_dashboard_tables(tmp_path / "tables").folder
    command = command_of("api", "--tables", f"prod={tables}", "--port", "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as served:
        try:
            assert served.stderr is not None
            line = served.stderr.readline()
            address = line.split(" is at ")[1].split(";")[0]
            with urlopen(f"{address}/status", timeout=60) as answer:  # noqa: S310 - our own
                status = json.load(answer)
            assert status["clusters"][0]["cluster"] == "prod"
        finally:
            served.send_signal(signal.SIGINT)
        assert served.wait(60) == 0
        assert served.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--tables", "/there/is/none"), "/there/is/none"),
        (("--tables", "/a", "--host", "192.0.2.1"), "set a token"),
    ],
)
def test_what_cannot_be_served_is_one_line(arguments: tuple[str, ...], said: str) -> None:
    done = subprocess.run(command_of("api", *arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
