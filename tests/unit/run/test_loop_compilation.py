"""The loops are compiled in a process of its own while Spark starts, unless the cache has them."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections.abc import Iterator

import pytest

from streaming.run import loop_compilation
from streaming.run.loop_compilation import await_loops, compiling_loops
from streaming.run.stages import leave_stages, newest_stage
from tests.support.eventually import Eventually

NEVER = threading.Event()
Started = list[subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def _no_stages() -> Iterator[None]:
    yield
    leave_stages()


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The processes that `compiling_loops` starts."""
    started: Started = []

    class Recorded(subprocess.Popen[str]):
        def __init__(process, *arguments: object, **options: object) -> None:
            super().__init__(*arguments, **options)  # type: ignore[call-overload]
            started.append(process)

    monkeypatch.setattr(subprocess, "Popen", Recorded)
    monkeypatch.setattr(loop_compilation, "has_compiled_loops", lambda: False)
    return started


def compile_by(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a shell run a script in place of the compilation."""
    monkeypatch.setattr(loop_compilation, "_COMMAND", ("/bin/sh", "-c", script))


def test_nothing_is_started_if_the_cache_has_all_loops(
    started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_compilation, "has_compiled_loops", lambda: True)
    with compiling_loops():
        await_loops(NEVER)
    assert started == []
    assert newest_stage() is None


@pytest.mark.usefixtures("started")
def test_the_wait_ends_with_the_process_and_one_line_announces_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    compile_by("echo '0 of 9'; echo '9 of 9'", monkeypatch)
    with caplog.at_level(logging.INFO, "streaming"), compiling_loops():
        await_loops(NEVER)
    stage = newest_stage()
    assert stage is not None
    assert stage.line(stage.began_at) == "compiling the loops of the decoder: 9 of 9 (0 s)"
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.INFO, "compiling the loops of the decoder for this processor (once) ...")
    ]


@pytest.mark.usefixtures("started")
@pytest.mark.parametrize(
    ("script", "warning"), [("true", None), ("echo 'Error: no folder' >&2; exit 1", "no folder")]
)
def test_only_a_failure_is_logged_if_nothing_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    script: str,
    warning: str | None,
) -> None:
    compile_by(script, monkeypatch)
    with caplog.at_level(logging.INFO, "streaming"), compiling_loops():
        await_loops(NEVER)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            f"the loops of the decoder are not compiled ahead (Error: {text}); the first "
            "micro-batch takes longer",
        )
        for text in [warning]
        if text
    ]


def test_a_stop_ends_the_wait_and_the_process(
    started: Started,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    compile_by("echo '0 of 9'; exec sleep 600", monkeypatch)
    stop = threading.Event()
    with compiling_loops(), compiling_loops():
        waiting = threading.Thread(target=await_loops, args=(stop,))
        waiting.start()
        eventually(lambda: newest_stage() is not None)
        stop.set()
        waiting.join()
    # The inner block used the process of the outer one.
    (process,) = started
    assert process.returncode is not None
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
