"""`coordinator-state run`."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import streaming.run.query
from streaming.cli.signals import interrupt_on_signals, stop_on_signals
from streaming.engine.progress import ProgressEvent
from streaming.run.settings import RunSettings
from tests.support.clients.command_line import RUN, call


def test_progress_and_log_go_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    def run_query(_settings: RunSettings, *, on_progress: Any, stop: threading.Event) -> None:
        assert not stop.is_set()
        logging.getLogger("streaming.run.query").info("micro-batch %s", 0)
        read = ("records_read", "offsets_read", "records_read_total", "next_offset_total")
        none = ("records_quarantined", "records_unaccounted_total")
        counts: dict[str, Any] = dict.fromkeys(read, 10) | dict.fromkeys(none, 0)
        counts |= {"high_watermark_total": 10, "duration_ms": 5}
        on_progress(ProgressEvent(batch_id=0, states={0: "current"}, **counts))

    monkeypatch.setattr(streaming.run.query, "run_query", run_query)
    ended = call(*RUN)

    assert ended.stdout == ""
    log, progress = ended.stderr.splitlines()
    assert log.endswith("INFO streaming.run.query: micro-batch 0")
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ 10 records read, ", progress)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_is_one_line_and_exit_status_0(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def run_query(_settings: RunSettings, *, on_progress: Any, stop: threading.Event) -> None:
        assert on_progress is not None
        os.kill(os.getpid(), number)
        assert stop.wait(10)

    monkeypatch.setattr(streaming.run.query, "run_query", run_query)
    (line,) = call(*RUN).stderr.splitlines()
    _, _, said = line.partition(" ")
    assert said == "stopped; the next start continues after the last finished micro-batch"


def test_silent_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, object]] = []
    monkeypatch.setattr(streaming.run.query, "run_query", lambda _, **kept: seen.append(kept))
    assert call(*RUN, "--silent").stderr == ""
    assert [kept["on_progress"] for kept in seen] == [None]


@contextmanager
def interrupt_by(handler: Any) -> Iterator[None]:
    """What SIGINT does in the block. If a shell started pytest in the background, it is ignored."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_to_stop_and_the_second_acts_as_before(
    number: signal.Signals,
) -> None:
    with interrupt_by(signal.default_int_handler):
        handler = signal.getsignal(number)
        with interrupt_on_signals(), stop_on_signals() as stop:
            os.kill(os.getpid(), number)
            assert stop.wait(5)
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        assert signal.getsignal(number) == handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_background_job_of_a_script_can_be_interrupted(number: signal.Signals) -> None:
    with interrupt_by(signal.SIG_IGN):
        with interrupt_on_signals(), pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_a_signal_that_another_thread_takes_wakes_the_main_thread() -> None:
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    with stop_on_signals() as stop:
        threading.Timer(0.1, signal.pthread_kill, [other.ident, signal.SIGTERM]).start()
        is_stopped = stop.wait(20)
    end.set()
    other.join()
    assert is_stopped
