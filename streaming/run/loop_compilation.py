"""`python -m streaming.run.loop_compilation`: compile the loops of the kernel, and keep them.

Numba compiles a loop at its first use. For all loops this takes ten seconds to a minute, in which
the first micro-batch would wait. So it is a step of the set-up of a virtual environment or an
image. Without it, the first `run` compiles them in a process of its own while Spark starts.
"""

from __future__ import annotations

import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import click

from streaming.errors import ConfigurationError, first_line
from streaming.run.beat import beating
from streaming.run.stages import enter_stage
from streaming.run.stderr import write_error
from streaming.source.kernel_cache import (
    ensure_kernel_cache,
    has_compiled_loops,
    mark_loops_compiled,
)

logger = logging.getLogger(__name__)

_PROGRESS: Final = "--progress"
_COMMAND: Final = (sys.executable, "-m", "streaming.run.loop_compilation", _PROGRESS)
_PROGRESS_LINE: Final = re.compile(r"\d+ of \d+")
_REPORT_INTERVAL: Final = timedelta(milliseconds=500)
_POLL_S: Final = 0.1


def compile_loops(report: Callable[[int, int], None]) -> Path:
    """Compile each loop that the cache does not have; return the folder of the cache.

    A small simulated log goes through the decoder and the writer of logs, so each loop is compiled
    for the types with which they call it. `report` gets the number of compiled loops and of all
    loops, and is not called if the cache has all.

    Raises:
        ConfigurationError: no folder is writable.
    """
    from coordinator_state.log.commit_sampling import CommitSampling
    from coordinator_state.log.kernel.numbers import LOOPS
    from coordinator_state.model.micro_batches import micro_batch
    from coordinator_state.model.plain_commits import PlainCommits
    from coordinator_state.model.workload import Workload, WorkloadSettings

    if any(loop.stats.cache_path is None for loop in LOOPS):
        raise ConfigurationError(
            "no folder for compiled loops is writable: set NUMBA_CACHE_DIR to one that is"
        )

    reported = -1

    def report_misses() -> None:
        nonlocal reported
        compiled = sum(bool(loop.overloads) for loop in LOOPS)
        if compiled > reported and any(loop.stats.cache_misses for loop in LOOPS):
            reported = compiled
            report(compiled, len(LOOPS))

    with beating("progress", _REPORT_INTERVAL, report_misses):
        settings = WorkloadSettings(groups=3, log_partitions=1)
        workload = Workload(settings)
        workload.run_until(100)
        micro_batch(workload.take(), sampling=CommitSampling.at(workload.now_ms))
        commits = PlainCommits(
            count=20, key_count=4, from_ms=settings.from_ms, seed=0, log_partitions=1
        )
        for _ in commits.logs():
            pass
    return Path(LOOPS[0].stats.cache_path)


class _Compilation:
    """A process that compiles the loops, and the progress that it reports."""

    def __init__(self) -> None:
        self.progress = ""
        self._process = subprocess.Popen(
            _COMMAND,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, name="loop-compilation", daemon=True)
        self._reader.start()

    @property
    def is_running(self) -> bool:
        return self._reader.is_alive()

    def close(self) -> None:
        """End the process; loops that it compiled are kept."""
        self._process.kill()
        self._reader.join()

    def _read(self) -> None:
        with self._process as process:
            last_line = ""
            for line in process.stdout or ():
                last_line = line.strip()
                if not _PROGRESS_LINE.fullmatch(last_line):
                    continue
                if not self.progress:
                    logger.info("compiling the loops of the decoder for this processor (once) ...")
                self.progress = f": {last_line}"
        if process.returncode > 0:
            logger.warning(
                "the loops of the decoder are not compiled ahead (%(error)s); the first "
                "micro-batch takes longer",
                {"error": last_line},
            )


_running: list[_Compilation] = []


@contextmanager
def compiling_loops() -> Iterator[None]:
    """Compile the loops in another process while the block runs, unless the cache has them.

    Inside another such block of this process, this does nothing.
    """
    ensure_kernel_cache()
    if _running or has_compiled_loops():
        yield
        return
    _running.append(_Compilation())
    try:
        yield
    finally:
        _running.pop().close()


def await_loops(stop: threading.Event) -> None:
    """Wait until the process of `compiling_loops` has ended, or until `stop`."""
    if _running:
        compilation = _running[0]
        enter_stage("compiling the loops of the decoder", lambda: compilation.progress)
        while compilation.is_running and not stop.wait(_POLL_S):
            pass


def _print_progress(compiled: int, loops: int) -> None:
    click.echo(f"{compiled} of {loops}")


def _print_nothing(_compiled: int, _loops: int) -> None:
    pass


def main() -> None:
    """Compile the loops; with `--progress`, print how many of them are compiled."""
    ensure_kernel_cache()
    try:
        if not has_compiled_loops():
            folder = compile_loops(_print_progress if _PROGRESS in sys.argv else _print_nothing)
            mark_loops_compiled(folder)
    except (ConfigurationError, OSError) as error:
        write_error(first_line(error))
        sys.exit(1)


if __name__ == "__main__":
    main()
