"""The command line on a machine whose clock jumps, and which is suspended now and then.

The file that the environment names says by how much: `python -m tests.faults.faulty_run run ...`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

from streaming.cli.main import main
from streaming.tables import clock

CLOCKS: Final = "FAULTY_RUN_CLOCKS"


@dataclass(frozen=True, slots=True)
class Clocks:
    """The time of day is `ahead_s` ahead, and the machine was suspended for `suspended_s`."""

    ahead_s: float = 0.0
    suspended_s: float = 0.0

    def write(self, file: Path) -> None:
        """Let the runs that read the file go by these clocks."""
        new = file.with_suffix(".new")
        new.write_text(json.dumps(asdict(self)))
        new.rename(file)


def _read() -> Clocks:
    return Clocks(**json.loads(Path(os.environ[CLOCKS]).read_text()))


def _patch() -> None:
    real: Callable[[int], float] = time.clock_gettime

    def passed_s(which: int) -> float:
        return real(which) + (_read().suspended_s if which == time.CLOCK_BOOTTIME else 0)

    def wall() -> datetime:
        return datetime.now(timezone.utc) + timedelta(seconds=_read().ahead_s)

    time.clock_gettime = passed_s
    vars(clock)["_CLOCK"] = clock.SteadyClock(wall)


if __name__ == "__main__":
    _patch()
    main()
