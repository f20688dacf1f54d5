"""Handlers for SIGINT and SIGTERM while a command runs."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets; a second one has its usual effect.

    A thread sets the event. Python calls a handler in the main thread only, and the handler does
    not wake a main thread that waits for a lock if another thread has taken the signal. That
    happens while a process is started.
    """
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    reading, writing = socket.socketpair()
    writing.setblocking(False)

    def set_event() -> None:
        while numbers := reading.recv(64):
            if not before.keys().isdisjoint(numbers):
                stop.set()

    def restore_handler(number: int, _frame: object) -> None:
        signal.signal(number, before[signal.Signals(number)])

    thread = threading.Thread(target=set_event, name="signals", daemon=True)
    thread.start()
    descriptor = signal.set_wakeup_fd(writing.fileno())
    for number in before:
        signal.signal(number, restore_handler)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(descriptor)
        writing.shutdown(socket.SHUT_WR)
        thread.join()
        writing.close()
        reading.close()


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise `KeyboardInterrupt`, so context managers clean up.

    A script's shell starts a background job (`command &`) with SIGINT ignored, and Python keeps
    that.
    """
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_process() -> NoReturn:
    """End a server with status 0 at once, without the shutdown of the interpreter.

    A thread may still compute an answer that nobody waits for. If Arrow or delta-rs calls Python
    from a thread of its own during the shutdown, the process crashes.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
