"""The command line as a user starts it: a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

_LIMIT_S = 300


def command_of(*arguments: str) -> list[str]:
    """The arguments of a process."""
    return [sys.executable, "-c", "from coordinator_state.__main__ import main; main()", *arguments]


def run_command(
    *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command_of(*arguments),
        env=env,
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        check=False,
    )
