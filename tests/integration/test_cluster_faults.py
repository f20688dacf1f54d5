"""Short faults of a cluster; `python -m tests.cluster_faults` has longer ones."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.release, pytest.mark.timeout(1_200)]

UNCLEAN_ELECTIONS = ("unclean-election", "former-leader")
FAULTS = ("broker-stalled", "coordinator-moved", *UNCLEAN_ELECTIONS)


def test_a_run_goes_on_by_itself(repository: Path) -> None:
    """Only a log that lost records makes it restart its query.

    A process of its own: the threads of a client of kafka-python may outlive a fault.
    """
    options = [*(f"--fault={name}" for name in FAULTS), "--seed=1", "--pause=0.1", "--output=json"]
    program = [sys.executable, "-m", "tests.cluster_faults", *options]
    ended = subprocess.run(program, cwd=repository, stdout=subprocess.PIPE, text=True, check=True)
    rows = {row["fault"]: row for row in map(json.loads, ended.stdout.splitlines())}
    assert list(rows) == list(FAULTS)
    assert {row["differences"] for row in rows.values()} == {0}
    assert min(row["records"] for row in rows.values()) > 0
    restarts = {
        name: row["restarts"] for name, row in rows.items() if name not in UNCLEAN_ELECTIONS
    }
    assert set(restarts.values()) == {0}
