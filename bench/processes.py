"""The command `run` as a process, and what a process and all that it started took."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]
_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_EXECUTOR = "CoarseGrainedExecutorBackend"


def run_command(bootstrap_servers: str, folder: Path, *options: str) -> list[str]:
    """The arguments of a `run` with tables and checkpoint below `folder`."""
    return [
        *cli_command("run"),
        *("--bootstrap-servers", bootstrap_servers, "--tables", str(folder / "tables")),
        *("--checkpoint", str(folder / "checkpoint"), *options),
    ]


def cli_command(*arguments: str) -> list[str]:
    """The arguments of a process with a command."""
    return [sys.executable, "-c", "from coordinator_state.__main__ import main; main()", *arguments]


def run_environment() -> dict[str, str]:
    """The modules of this repository also where they are not installed."""
    path = os.pathsep.join(filter(None, (str(_REPOSITORY), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path}


def memory_bytes(pid: int) -> int:
    """Memory of a process and its descendants; 0 on systems other than Linux."""
    return sum(memory_by_program(pid).values())


def memory_by_program(pid: int) -> dict[str, int]:
    """Bytes of memory of a process, by its id as text, and of what it started, by the program.

    Spark's executors have the name `executor`, although their program is `java`, too. Pages that
    processes share are parted among them (Linux's PSS).
    """
    bytes_by_program: dict[str, int] = defaultdict(int)
    for number in _with_descendants(pid):
        lines = dict(
            line.partition(":")[::2] for line in _read(number, "smaps_rollup").splitlines()
        )
        name = str(pid) if number == pid else _read(number, "comm").strip()
        if _EXECUTOR in _read(number, "cmdline"):
            name = "executor"
        bytes_by_program[name] += int(lines.get("Pss", "0 kB").split()[0]) << 10
    return dict(bytes_by_program)


def processor_s(pid: int) -> dict[int, float]:
    """Processor time of a process and of each living descendant, by process id."""
    fields = {number: _stat(number) for number in _with_descendants(pid)}
    return {
        number: sum(map(int, stat[11:13])) / _TICKS_PER_S for number, stat in fields.items() if stat
    }


def used_s(before: Mapping[int, float], after: Mapping[int, float]) -> float:
    """Processor time between two results of `processor_s`.

    A process that ended in between is left out: Spark ends idle workers, and their daemon does not
    keep their times.
    """
    return sum(found_s - before.get(number, 0) for number, found_s in after.items())


def _with_descendants(pid: int) -> Sequence[int]:
    children: dict[int, list[int]] = defaultdict(list)
    for folder in _PROC.glob("[0-9]*"):
        if fields := _stat(int(folder.name)):
            children[int(fields[1])].append(int(folder.name))
    processes = [pid]
    for process in processes:
        processes += children[process]
    return processes


def _stat(pid: int) -> list[str]:
    """The fields behind the name of the program, which, in parentheses, may hold anything."""
    return _read(pid, "stat").rpartition(")")[2].split()


def _read(pid: int, name: str) -> str:
    """Nothing where the process has ended meanwhile, and on systems other than Linux."""
    try:
        return (_PROC / str(pid) / name).read_text(errors="replace")
    except OSError:
        return ""
