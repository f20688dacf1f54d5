"""Commands that read tables import neither Spark nor a Kafka client, which would take seconds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from streaming.cli.options import ENVIRONMENT_PREFIX

_LATE = {"kafka", "pydantic", "pyspark", "requests"}
# A variable of this prefix makes each command compare it with the options of all commands.
_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(ENVIRONMENT_PREFIX)}
_RUN = """
import sys
from streaming.cli.main import cli
cli(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize(
    "command",
    [
        ["show", "offsets"],
        ["show", "lag"],
        ["show", "status"],
        ["show", "status", "--rules", "burrow"],
        ["sql", "SELECT count(*) FROM group_lag"],
    ],
    ids=" ".join,
)
def test_a_command_that_reads_imports_no_client(command: list[str], tables_that_lag: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *command, "--tables", tables_that_lag],
        capture_output=True,
        text=True,
        check=True,
        env=_ENVIRONMENT,
    )
    assert done.stdout
    imported = set(done.stderr.split())
    assert "deltalake" in imported
    assert imported & _LATE == set()
    if command[0] != "sql":
        assert "duckdb" not in imported
