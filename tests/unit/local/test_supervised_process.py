"""A supervised process ends when it is told to, and when its owner is gone without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streaming.local.broker.supervised_process import SupervisedProcess
from tests.support.eventually import Eventually

TIMEOUT_S = 60.0
# Writes its pid and stays, with SIGTERM as it found it or ignored.
STAYS = "import os, signal; {before}print(os.getpid(), flush=True); signal.pause()"
DEAF = STAYS.format(before="signal.signal(signal.SIGTERM, signal.SIG_IGN); ")
POLITE = STAYS.format(before="")
OWNER = """
import sys
from pathlib import Path
from streaming.local.broker.supervised_process import SupervisedProcess
import signal
folder = Path(sys.argv[1])
SupervisedProcess([sys.executable, "-c", sys.argv[2]], folder=folder, output=folder / "output")
signal.pause()
"""

Start = Callable[[str], tuple[SupervisedProcess, int]]


def process_of(folder: Path, script: str) -> SupervisedProcess:
    command = [sys.executable, "-c", script]
    return SupervisedProcess(command, folder=folder, output=folder / "output")


def pid_in(folder: Path, eventually: Eventually) -> int:
    """Wait for the first line that the child writes, its pid."""
    output = folder / "output"
    eventually(lambda: output.exists() and output.read_text().endswith("\n"), TIMEOUT_S)
    return int(output.read_text())


@pytest.fixture
def start(tmp_path: Path, eventually: Eventually) -> Iterator[Start]:
    """Start a process in a thread that ends; returns it and its pid. The test has to end it."""
    started: list[SupervisedProcess] = []
    pids: list[int] = []

    def start(script: str) -> tuple[SupervisedProcess, int]:
        thread = threading.Thread(target=lambda: started.append(process_of(tmp_path, script)))
        thread.start()
        thread.join()
        pids.append(pid_in(tmp_path, eventually))
        assert started[0].is_running
        assert is_alive(pids[0])
        return started[0], pids[0]

    yield start
    assert not started[0].is_running
    assert not is_alive(pids[0])


def is_alive(pid: int) -> bool:
    """Whether the process is there, be it only to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_stop_lets_the_process_end(start: Start) -> None:
    process, _ = start(POLITE)
    assert process.stop(TIMEOUT_S)


def test_kill_ends_a_process_that_does_not_listen(start: Start) -> None:
    process, pid = start(DEAF)
    assert not process.stop(0.2)
    assert is_alive(pid)
    process.kill()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_stalled_process_goes_on_or_is_killed(
    start: Start, eventually: Eventually, is_killed: bool
) -> None:
    process, pid = start(POLITE)
    process.pause()
    state = ("/bin/ps", "-o", "stat=", "-p", str(pid))
    eventually(lambda: subprocess.check_output(state).startswith(b"T"), TIMEOUT_S)
    if is_killed:
        process.kill()
    else:
        assert not process.stop(0.2)
        process.resume()
        eventually(lambda: not process.is_running, TIMEOUT_S)


def test_it_ends_with_its_owner(tmp_path: Path, eventually: Eventually) -> None:
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), DEAF],
        env={**os.environ, "PYTHONPATH": root},
    ) as owner:
        pid = pid_in(tmp_path, eventually)
        owner.send_signal(signal.SIGKILL)
    eventually(lambda: not is_alive(pid), TIMEOUT_S)


def test_output_is_appended(tmp_path: Path, eventually: Eventually) -> None:
    (tmp_path / "output").write_text("before\n")
    script = "import os, sys; print(os.getcwd()); sys.stderr.write('error')"
    process = process_of(tmp_path, script)
    eventually(lambda: not process.is_running, TIMEOUT_S)
    assert (tmp_path / "output").read_text() == f"before\n{tmp_path}\nerror"
