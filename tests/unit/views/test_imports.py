"""Commands that read tables import neither Spark nor a Kafka client, which would take seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from streaming.cli.options import ENVIRONMENT_PREFIX

_LATE = {"kafka", "pydantic", "pyspark", "requests"}
# A variable of this prefix makes each command compare it with the options of all commands.
_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(ENVIRONMENT_PREFIX)}
_COMMANDS = (
    ["show", "offsets"],
    ["show", "lag"],
    ["show", "status"],
    ["show", "status", "--rules", "burrow"],
    # Only this one needs DuckDB.
    ["sql", "SELECT count(*) FROM group_lag"],
)
_RUN = """
import json, sys
from streaming.cli.main import cli
for command in json.loads(sys.argv[2]):
    cli([*command, "--tables", sys.argv[1]], standalone_mode=False)
    print(json.dumps([command, [*sys.modules]]), file=sys.stderr)
"""


def test_commands_that_read_import_no_client(tables_that_lag: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, tables_that_lag, json.dumps(_COMMANDS)],
        capture_output=True,
        text=True,
        check=True,
        env=_ENVIRONMENT,
    )
    # Each has a header and a row.
    assert len(done.stdout.splitlines()) == 2 * len(_COMMANDS)
    imported_by = [json.loads(line) for line in done.stderr.splitlines()]
    assert [command for command, _ in imported_by] == [*_COMMANDS]
    for command, modules in imported_by:
        assert "deltalake" in modules
        assert _LATE.isdisjoint(modules), command
        assert ("duckdb" in modules) == (command[0] == "sql")
