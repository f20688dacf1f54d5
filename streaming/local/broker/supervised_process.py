"""A child process that never outlives this process.

A small supervisor process starts the child and watches this process. It kills the child even after
a SIGKILL of this process, which runs no exit handler. (Linux's parent-death signal is not suitable:
it is sent when the *thread* that started the child ends.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

# The supervisor forwards SIGTERM and SIGCONT, SIGTSTP as SIGSTOP, and SIGUSR1 as SIGKILL. It stays
# alive to reap the child, and its own end tells the caller that the child has ended. Handlers are
# used because exec resets them; ignored signals would stay ignored in the child.
_SUPERVISOR = """\
import os, signal, subprocess, sys
parent = int(sys.argv[1])
signal.signal(signal.SIGTERM, lambda *_: child.terminate())
signal.signal(signal.SIGUSR1, lambda *_: child.kill())
signal.signal(signal.SIGTSTP, lambda *_: child.send_signal(signal.SIGSTOP))
signal.signal(signal.SIGCONT, lambda *_: child.send_signal(signal.SIGCONT))
signals = [signal.SIGTERM, signal.SIGUSR1, signal.SIGTSTP, signal.SIGCONT]
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
child = subprocess.Popen(
    sys.argv[2:],
    stdin=subprocess.DEVNULL,
    preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, []),
)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
while True:
    try:
        sys.exit(abs(child.wait(0.5)))
    except subprocess.TimeoutExpired:
        if os.getppid() != parent:
            child.kill()
"""


class SupervisedProcess:
    """A command in its own session, which Ctrl-C in the terminal does not reach.

    Args:
        command: program and arguments.
        folder: its working directory.
        output: standard output and error are appended to this file.
    """

    def __init__(self, command: Sequence[str], *, folder: Path, output: Path) -> None:
        supervisor = (sys.executable, "-I", "-S", "-c", _SUPERVISOR, str(os.getpid()))
        with output.open("ab") as log:
            self._supervisor = subprocess.Popen(
                [*supervisor, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._supervisor.poll() is None

    def stop(self, timeout_s: float) -> bool:
        """Ask the process to end (SIGTERM); return whether it did so in time."""
        self._supervisor.terminate()
        try:
            self._supervisor.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def pause(self) -> None:
        """Suspend the process (SIGSTOP)."""
        self._supervisor.send_signal(signal.SIGTSTP)

    def resume(self) -> None:
        """Resume the process (SIGCONT)."""
        self._supervisor.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill the process (SIGKILL) and return when it has ended."""
        self._supervisor.send_signal(signal.SIGUSR1)
        self._supervisor.wait()
