"""A supervised process ends when it is told to, and when its owner is gone without a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.local.broker.supervised_process import SupervisedProcess

TIMEOUT_S = 30.0
# Says its pid and stays, with SIGTERM as it found it or ignored.
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


def wait_until(condition: Callable[[], object]) -> None:
    deadline, pause = time.monotonic() + TIMEOUT_S, threading.Event()
    while not condition():
        assert time.monotonic() < deadline
        pause.wait(0.02)


def start(folder: Path, script: str) -> SupervisedProcess:
    return SupervisedProcess(
        [sys.executable, "-c", script], folder=folder, output=folder / "output"
    )


def pid_of_the_child(folder: Path) -> int:
    """Wait for the first line that the child writes, its pid."""
    output = folder / "output"
    wait_until(lambda: output.exists() and output.read_text().endswith("\n"))
    return int(output.read_text())


def is_alive(pid: int) -> bool:
    """Whether the process is there, be it only to be reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_stop_lets_the_process_end(tmp_path: Path) -> None:
    process = start(tmp_path, POLITE)
    pid = pid_of_the_child(tmp_path)
    assert process.stop(TIMEOUT_S)
    assert not process.is_running
    assert not is_alive(pid)


def test_kill_ends_a_process_that_does_not_listen(tmp_path: Path) -> None:
    process = start(tmp_path, DEAF)
    pid = pid_of_the_child(tmp_path)
    assert not process.stop(0.2)
    assert is_alive(pid)
    process.kill()
    assert not process.is_running
    assert not is_alive(pid)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_stalled_process_goes_on_or_is_killed(tmp_path: Path, is_killed: bool) -> None:
    process = start(tmp_path, POLITE)
    pid = pid_of_the_child(tmp_path)
    process.pause()
    wait_until(lambda: is_stopped(pid))
    if is_killed:
        process.kill()
    else:
        assert not process.stop(0.2)
        process.resume()
        wait_until(lambda: not process.is_running)
    assert not is_alive(pid)


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped the process."""
    state = subprocess.run(
        ["/bin/ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=True
    )
    return state.stdout.startswith(b"T")


def test_it_ends_with_its_owner(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[3])
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path), DEAF],
        env={**os.environ, "PYTHONPATH": root},
    ) as owner:
        pid = pid_of_the_child(tmp_path)
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))


def test_it_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[SupervisedProcess] = []
    thread = threading.Thread(target=lambda: started.append(start(tmp_path, POLITE)))
    thread.start()
    thread.join()
    pid = pid_of_the_child(tmp_path)
    assert is_alive(pid)
    assert started[0].is_running
    started[0].kill()


def test_output_is_appended(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("before\n")
    process = start(tmp_path, "import os, sys; print(os.getcwd()); sys.stderr.write('error')")
    wait_until(lambda: not process.is_running)
    assert (tmp_path / "output").read_text() == f"before\n{tmp_path}\nerror"
