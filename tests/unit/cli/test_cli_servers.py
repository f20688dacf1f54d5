"""`coordinator-state api`, as the installed command, and the names of clusters that it serves."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from urllib.request import urlopen

import click
import pytest

from streaming.cli.clusters import clusters_of
from tests.support.clients.command_line import call
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
    refused = call("api", *arguments, exit_code=2)
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["/data/prod"], ["tables"]),
        (["prod=/data/prod", "/data/stage"], ["prod", "tables"]),
        (["/data/prod", "/data/stage"], ["prod", "stage"]),
        (["/a/tables", "/b/tables", "/c"], ["a-tables", "b-tables", "c"]),
        (["/a/x/tables", "/b/x/tables"], ["a-x-tables", "b-x-tables"]),
        (["s3://lake/prod", "s3://lake/my tables"], ["prod", "my-tables"]),
    ],
)
def test_folders_without_a_name_have_distinguishing_ones(
    folders: list[str], names: list[str]
) -> None:
    assert list(clusters_of(folders)) == names


@pytest.mark.parametrize("folders", [["/a", "/a"], ["x=/a", "x=/b"]])
def test_the_same_name_or_folder_twice_is_refused(folders: list[str]) -> None:
    with pytest.raises(click.UsageError, match="two --tables folders have the name"):
        clusters_of(folders)
