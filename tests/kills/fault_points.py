"""Points at which a run can be killed, with everything that it started.

`killed_run` patches a run so that it passes them; it does nothing there unless the environment asks
for one of them. The environment reaches Spark's workers too.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final

from streaming.tables.schemas import ALL_TABLES, EXTERNAL_OFFSETS

AT: Final = "KILLED_RUN_AT"
"""`POINT:N`: die when the point is reached for the N-th time in one process."""
REACHED: Final = "KILLED_RUN_REACHED"
"""A file to which the point is appended just before."""

CREATION: Final = "creation of a table"
FENCE: Final = "fence"
ROLL_BACK: Final = "roll-back"
COMPACTION: Final = "compaction"
DELETION_OF_DAYS: Final = "deletion of days"
DELETION_OF_FILES: Final = "deletion of files"
PLANNING: Final = "planning"
LOG_CLEAN_UP: Final = "clean-up of the log"
INITIAL_OFFSET: Final = "after initialOffset"
LATEST_OFFSET: Final = "after latestOffset"
BEFORE_PARTITIONS: Final = "before partitions"
AFTER_PARTITIONS: Final = "after partitions"
FIRST_READ: Final = "read: the first batch"
NEXT_READ: Final = "read: between two batches"
LAST_READ: Final = "read: behind the last batch"


def _of_steps(*steps: str) -> tuple[str, ...]:
    return tuple(f"{when} {step}" for step in steps for when in ("before", "in", "after"))


POINTS_OF_CREATION: Final = _of_steps(CREATION)
"""Reached for each table; only in a folder without tables do they mean something."""
POINTS_OF_ROLL_BACK: Final = _of_steps(ROLL_BACK)
POINTS_OF_UPKEEP: Final = _of_steps(COMPACTION, DELETION_OF_DAYS, DELETION_OF_FILES, LOG_CLEAN_UP)
POINTS_OF_READING: Final = (FIRST_READ, NEXT_READ, LAST_READ)
POINTS_OF_SPARK: Final = _of_steps(PLANNING)
"""Reached only with the engine `spark`."""
POINTS: Final = (
    *POINTS_OF_CREATION,
    *_of_steps(FENCE),
    INITIAL_OFFSET,
    LATEST_OFFSET,
    BEFORE_PARTITIONS,
    AFTER_PARTITIONS,
    *POINTS_OF_READING,
    *_of_steps(*(table.name for table in ALL_TABLES if table is not EXTERNAL_OFFSETS)),
    *POINTS_OF_ROLL_BACK,
    *POINTS_OF_UPKEEP,
)
"""A point in a step is a random moment of that step.

No external group is there, so nothing writes `external_offsets`."""

_SHORT_STEP_S: Final = 0.005
_passed: Counter[str] = Counter()


def pass_point(point: str) -> None:
    """Die here if it is time."""
    if _is_time(point):
        _die(point)


@contextmanager
def in_step(step: str, usual_s: float = _SHORT_STEP_S) -> Iterator[None]:
    """Pass the points before and behind a step, and one within it."""
    pass_point(f"before {step}")
    if _is_time(inside := f"in {step}"):
        moment = random.uniform(0, usual_s)
        threading.Timer(moment, _die, [inside]).start()
    yield
    pass_point(f"after {step}")


def with_points(function: Callable[..., Any], step: Callable[..., str]) -> Callable[..., Any]:
    """A function that is a step, by its arguments."""
    usual_s = _SHORT_STEP_S

    @wraps(function)
    def stepping(*args: Any, **kwargs: Any) -> Any:
        nonlocal usual_s
        with in_step(step(*args), usual_s):
            began = time.monotonic()
            result = function(*args, **kwargs)
            usual_s = time.monotonic() - began
        return result

    return stepping


def _is_time(point: str) -> bool:
    asked, _, number = os.environ.get(AT, "").rpartition(":")
    if asked != point:
        return False
    _passed[point] += 1
    return _passed[point] == int(number)


def _die(point: str) -> None:
    session = os.getsid(0)
    with Path(os.environ[REACHED]).open("a") as reached:
        reached.write(f"{point}\n")
    # The driver first: it is the one that writes.
    for pid in sorted(pids_of(session) - {os.getpid()}):
        kill(pid)
    kill(os.getpid())


def kill(pid: int) -> None:
    """End a process with SIGKILL."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:  # it has ended meanwhile
        return


def pids_of(session: int) -> set[int]:
    """The processes of a session that still run."""
    pids = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                # What the program calls itself may hold anything, parentheses too.
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            if int(fields[3]) == session and fields[0] not in "ZX":
                pids.add(int(folder.name))
    return pids
