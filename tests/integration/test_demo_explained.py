"""`explain` finds the incident of every group of the demo: live clients on a real broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_state.insight.evidence import Cause
from streaming.errors import ConfigurationError
from streaming.local.demo.groups import DEMO_GROUPS
from streaming.views.coordinator_tables import CoordinatorTables
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


@pytest.fixture
def tables(tmp_path: Path, repository: Path) -> Iterator[Path]:
    """The tables of a demo that runs meanwhile."""
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(repository)}
    program = "from streaming.cli.main import main; main()"
    command = [sys.executable, "-c", program, "demo", "--no-dashboard", "--seconds", "600"]
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


def test_every_incident_of_the_demo_is_explained(tables: Path, eventually: Eventually) -> None:
    expected = {group.group_id: Cause.CAUGHT_UP for group in DEMO_GROUPS} | CAUSES

    def explained() -> set[str]:
        return {group for group, cause in expected.items() if _first_cause(tables, group) is cause}

    found: set[str] = set()

    def all_were_explained() -> bool:
        # The incidents of `reports` come and go.
        found.update(explained())
        return found == expected.keys()

    eventually(all_were_explained, 600)


def _first_cause(folder: Path, group_id: str) -> Cause | None:
    for tables in folder.glob("coordinator-state-demo-*/tables"):
        try:
            return CoordinatorTables(tables).explain(group_id).evidence[0].cause
        except ConfigurationError:
            # The tables or the group do not exist yet.
            return None
    return None
