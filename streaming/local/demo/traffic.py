"""The demo's traffic: a thread per group member, from its first step until its clients close."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from streaming.local.demo.groups import DEMO_GROUPS, Clients, Steps, produce_orders

logger = logging.getLogger(__name__)

_STEP_INTERVAL_S = 0.1
_CLOSE_TIMEOUT_S = 20.0


class TrafficError(RuntimeError):
    """A client of the demo failed, or did not get as far as it should."""


class Traffic:
    """Everything that produces and commits.

    `stop` ends the traffic and leaves the clients connected; `close` closes them, also in the
    middle of the traffic. Every group pauses for `step_interval_s` between two steps.
    """

    def __init__(
        self, bootstrap_servers: str, *, step_interval_s: float = _STEP_INTERVAL_S
    ) -> None:
        clients = Clients(bootstrap_servers)
        self._step_interval_s = step_interval_s
        self._stop = threading.Event()
        self._close = threading.Event()
        self._threads = [self._thread("orders", lambda: produce_orders(clients), self._stop)]
        for group in DEMO_GROUPS:
            stop = self._stop
            for member in reversed(group.members):
                steps = partial(member, clients, group.group_id)
                self._threads.append(self._thread(group.group_id, steps, stop))
                # A member that joins needs the ones before it: they stop after it.
                stop = self._threads[-1].is_at_rest

    def _thread(
        self, name: str, steps: Callable[[], Steps], stop: threading.Event
    ) -> TrafficThread:
        return TrafficThread(name, steps, stop, self._close, self._step_interval_s)

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    @property
    def not_happened(self) -> list[str]:
        """The groups that have not yet done what they are there to show.

        Raises:
            TrafficError: a client failed.
        """
        self._raise_if_failed()
        return [thread.name for thread in self._threads if not thread.has_happened.is_set()]

    def stop(self, timeout_s: float) -> None:
        """Let every group come to a point where it may end, and return when all are at rest.

        Raises:
            TrafficError: a client failed, or a group is not at rest in time.
        """
        self._stop.set()
        deadline = time.monotonic() + timeout_s
        for thread in self._started:
            thread.is_at_rest.wait(max(0.0, deadline - time.monotonic()))
        self._raise_if_failed()
        moving = [thread.name for thread in self._started if not thread.is_at_rest.is_set()]
        if moving:
            raise TrafficError(f"still not at rest after {timeout_s:.0f} s: {', '.join(moving)}")

    def close(self) -> None:
        """Close every client and return when the threads have ended."""
        self._close.set()
        self._stop.set()
        deadline = time.monotonic() + _CLOSE_TIMEOUT_S
        for thread in self._started:
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def _started(self) -> list[TrafficThread]:
        """All of them, unless `start` was interrupted."""
        return [thread for thread in self._threads if thread.ident is not None]

    def _raise_if_failed(self) -> None:
        for thread in self._threads:
            if thread.error is not None:
                raise TrafficError(
                    f"traffic of {thread.name}: {type(thread.error).__name__}: {thread.error}"
                ) from thread.error


class TrafficThread(threading.Thread):
    """Takes the steps of one generator; clients are used by this thread only."""

    def __init__(
        self,
        name: str,
        steps: Callable[[], Steps],
        stop: threading.Event,
        close: threading.Event,
        step_interval_s: float,
    ) -> None:
        # A daemon: a client that does not close must not keep the program from ending.
        super().__init__(name=name, daemon=True)
        self.has_happened = threading.Event()
        self.is_at_rest = threading.Event()
        self.error: Exception | None = None
        self._steps = steps
        self._stop_asked = stop
        self._close_asked = close
        self._step_interval_s = step_interval_s

    def run(self) -> None:
        steps = self._steps()
        try:
            self._take(steps)
        except Exception as error:  # noqa: BLE001 - whatever a client raises, the main thread tells
            self.error = error
        self.is_at_rest.set()
        self._close_asked.wait()
        try:
            steps.close()
        except Exception:  # the broker may be gone already
            logger.debug("%s: a client did not close", self.name, exc_info=True)

    def _take(self, steps: Steps) -> None:
        for has_happened in steps:
            if has_happened:
                self.has_happened.set()
            if self._close_asked.is_set() or (has_happened and self._stop_asked.is_set()):
                return
            self._stop_asked.wait(self._step_interval_s)
