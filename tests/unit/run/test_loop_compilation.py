"""The loops are compiled in a process of its own while Spark starts, unless the cache has them."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from streaming.run import loop_compilation
from streaming.run.loop_compilation import await_loops, compiling_loops
from streaming.run.stages import leave_stages, newest_stage
from tests.support.eventually import Eventually

NEVER = threading.Event()


@pytest.fixture(autouse=True)
def _no_stages() -> Iterator[None]:
    yield
    leave_stages()


class Processes:
    """The processes that `compiling_loops` starts; each runs a program of the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.started: list[subprocess.Popen[str]] = []

        class Recorded(subprocess.Popen[str]):
            def __init__(process, *arguments: object, **options: object) -> None:
                super().__init__(*arguments, **options)  # type: ignore[call-overload]
                self.started.append(process)

        monkeypatch.setattr(subprocess, "Popen", Recorded)
        monkeypatch.setattr(loop_compilation, "has_compiled_loops", lambda: False)

    def run(self, program: str) -> None:
        self._monkeypatch.setattr(loop_compilation, "_COMMAND", (sys.executable, "-c", program))


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [(record.levelno, record.getMessage()) for record in caplog.records]


def test_nothing_is_started_if_the_cache_has_all_loops(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_compilation, "has_compiled_loops", lambda: True)
    with compiling_loops():
        await_loops(NEVER)
    assert processes.started == []
    assert newest_stage() is None


def test_the_wait_ends_with_the_process_and_one_line_announces_it(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    processes.run("print('0 of 9'); print('9 of 9')")
    with caplog.at_level(logging.INFO, "streaming"), compiling_loops():
        await_loops(NEVER)
    stage = newest_stage()
    assert stage is not None
    assert stage.line(stage.began_at) == "compiling the loops of the decoder: 9 of 9 (0 s)"
    assert logged(caplog) == [
        (logging.INFO, "compiling the loops of the decoder for this processor (once) ...")
    ]


@pytest.mark.parametrize(
    ("program", "warnings"),
    [
        ("pass", []),
        (
            "import sys; sys.exit('Error: no folder is writable')",
            [
                "the loops of the decoder are not compiled ahead (Error: no folder is writable); "
                "the first micro-batch takes longer"
            ],
        ),
    ],
)
def test_only_a_failure_is_logged_if_nothing_is_compiled(
    processes: Processes, caplog: pytest.LogCaptureFixture, program: str, warnings: list[str]
) -> None:
    processes.run(program)
    with caplog.at_level(logging.INFO, "streaming"), compiling_loops():
        await_loops(NEVER)
    assert logged(caplog) == [(logging.WARNING, warning) for warning in warnings]


def test_a_stop_ends_the_wait_and_the_process(
    processes: Processes, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    processes.run("import time; print('0 of 9', flush=True); time.sleep(600)")
    stop = threading.Event()
    with compiling_loops(), compiling_loops():
        waiting = threading.Thread(target=await_loops, args=(stop,))
        waiting.start()
        eventually(lambda: newest_stage() is not None)
        stop.set()
        waiting.join()
    # The inner block used the process of the outer one.
    (process,) = processes.started
    assert process.returncode is not None
    assert not [message for level, message in logged(caplog) if level > logging.INFO]
