"""`run` in a process of its own, with its log in a file."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.clients.installed_command import command_of

START_S = 300.0
"""The deadline of the first micro-batch: on a busy machine its JVM takes minutes to start."""
_END_S = 120.0


@dataclass(frozen=True)
class LiveRun:
    """A process, and the file that it logs to."""

    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End it, its JVM and its workers with SIGKILL, whatever they are doing."""
        if self.is_alive:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Ask it to end, and require that it was alive and ends well."""
        assert self.is_alive, self.log
        self.process.send_signal(number)
        assert self.process.wait(_END_S) == 0, self.log


@contextmanager
def live_run(
    folder: Path, *options: str, name: str = "run", env: Mapping[str, str] | None = None
) -> Iterator[LiveRun]:
    """Start it, with its log, tables and checkpoint in a folder; kill it after the block.

    Options replace these folders.
    """
    log_file = folder / f"{name}.log"
    folders = ("--tables", str(folder / "tables"), "--checkpoint", str(folder / "checkpoint"))
    with log_file.open("wb") as log:
        process = subprocess.Popen(
            command_of("run", *folders, *options),
            stdout=subprocess.DEVNULL,
            stderr=log,
            env=env,
            start_new_session=True,
        )
    run = LiveRun(process, log_file)
    try:
        yield run
    finally:
        run.kill()
