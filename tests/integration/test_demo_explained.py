"""`explain` and an agent find the incident of every group of the demo: live clients on a broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from coordinator_state.insight.evidence import Cause
from streaming.errors import ConfigurationError
from streaming.local.demo.groups import DEMO_GROUPS
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.clients.agent import connected
from tests.support.clients.incident_search import findings
from tests.support.clients.installed_command import command_of
from tests.support.eventually import Eventually

# Two JVMs start, and the first incident of `reports` comes after a minute.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

CAUSES = {
    "search": Cause.REBALANCES,
    "refunds": Cause.ABORTED_TRANSACTIONS,
    "fraud-check": Cause.OPEN_TRANSACTION,
    "returns": Cause.OFFSET_DELETED,
    "trial": Cause.GROUP_DELETED,
    "reports": Cause.OFFSET_REWIND,
}
"""Of the groups with an incident; the others keep up."""


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Iterator[Path]:
    """The folder with the tables of a demo that runs meanwhile."""
    tmp_path = tmp_path_factory.mktemp("demo")
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(repository)}
    program = "from streaming.cli.main import main; main()"
    command = [sys.executable, "-c", program, "demo", "--no-dashboard", "--seconds", "1200"]
    demo = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield tmp_path
    finally:
        demo.terminate()
        demo.wait(60)


def test_every_incident_of_the_demo_is_explained(demo_folder: Path, eventually: Eventually) -> None:
    def first_causes() -> dict[str, str]:
        (tables,) = tables_of(demo_folder)
        explained = {}
        for group in EXPECTED:
            # A group may not exist yet.
            with suppress(ConfigurationError):
                explained[group] = CoordinatorTables(tables).explain(group).evidence[0].cause.value
        return explained

    eventually(lambda: bool(tables_of(demo_folder)), 300)
    require_all(first_causes, eventually)


def test_an_agent_finds_every_incident_of_the_demo(
    demo_folder: Path, eventually: Eventually, repository: Path
) -> None:
    eventually(lambda: bool(tables_of(demo_folder)), 300)
    (tables,) = tables_of(demo_folder)
    command, *arguments = command_of("mcp", "--tables", str(tables))
    server = StdioServerParameters(
        command=command, args=arguments, env={"PYTHONPATH": str(repository)}
    )
    with connected(server) as agent:
        expected = {group: cause.value for group, cause in CAUSES.items()}
        require_all(
            lambda: {group: found.cause for group, found in findings(agent).items()},
            eventually,
            expected,
        )


EXPECTED = {group.group_id: Cause.CAUGHT_UP.value for group in DEMO_GROUPS} | {
    group: cause.value for group, cause in CAUSES.items()
}


def require_all(
    causes: Callable[[], Mapping[str, str]],
    eventually: Eventually,
    expected: Mapping[str, str] = EXPECTED,
) -> None:
    """Every group has its cause at some time: the incidents of `reports` come and go."""
    found: set[tuple[str, str]] = set()

    def all_were_found() -> bool:
        found.update(causes().items())
        return found >= set(expected.items())

    eventually(all_were_found, 600)


def tables_of(folder: Path) -> list[Path]:
    """The tables folder of the demo, once it is there."""
    return [
        progress.parent for progress in folder.glob("coordinator-state-demo-*/tables/load_progress")
    ]
