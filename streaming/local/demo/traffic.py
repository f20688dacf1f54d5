"""The demo's traffic: one thread per group member, until its clients are closed."""

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
    """A client of the demo failed or timed out."""


class Traffic:
    """All clients that produce and commit.

    `stop` ends the traffic and leaves the clients connected. `close` closes them, also during the
    traffic. Every group pauses for `step_interval_s` between two steps.
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
                # A member can join only while the earlier ones still poll: they stop after it.
                stop = self._threads[-1].is_idle

    def _thread(
        self, name: str, steps: Callable[[], Steps], stop: threading.Event
    ) -> TrafficThread:
        return TrafficThread(name, steps, stop, self._close, self._step_interval_s)

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    @property
    def not_demonstrated(self) -> list[str]:
        """The groups that have not yet shown their behaviour.

        Raises:
            TrafficError: a client failed.
        """
        self._raise_if_failed()
        return [thread.name for thread in self._threads if not thread.has_demonstrated.is_set()]

    def stop(self, timeout_s: float) -> None:
        """Let every group reach a point where it may stop, and return when all are idle.

        Raises:
            TrafficError: a client failed, or a group is not idle in time.
        """
        self._stop.set()
        deadline = time.monotonic() + timeout_s
        for thread in self._started:
            thread.is_idle.wait(max(0.0, deadline - time.monotonic()))
        self._raise_if_failed()
        moving = [thread.name for thread in self._started if not thread.is_idle.is_set()]
        if moving:
            raise TrafficError(f"still active after {timeout_s:.0f} s: {', '.join(moving)}")

    def close(self) -> None:
        """Close every client and return when the threads have ended."""
        self._close.set()
        self._stop.set()
        deadline = time.monotonic() + _CLOSE_TIMEOUT_S
        for thread in self._started:
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def _started(self) -> list[TrafficThread]:
        """The started threads: all of them, unless `start` was interrupted."""
        return [thread for thread in self._threads if thread.ident is not None]

    def _raise_if_failed(self) -> None:
        for thread in self._threads:
            if thread.error is not None:
                raise TrafficError(
                    f"traffic of {thread.name}: {type(thread.error).__name__}: {thread.error}"
                ) from thread.error


class TrafficThread(threading.Thread):
    """Runs the steps of one generator; only this thread uses its clients."""

    def __init__(
        self,
        name: str,
        steps: Callable[[], Steps],
        stop: threading.Event,
        close: threading.Event,
        step_interval_s: float,
    ) -> None:
        # A daemon thread: a client that does not close must not block the exit of the program.
        super().__init__(name=name, daemon=True)
        self.has_demonstrated = threading.Event()
        self.is_idle = threading.Event()
        self.error: Exception | None = None
        self._steps = steps
        self._stop_requested = stop
        self._close_requested = close
        self._step_interval_s = step_interval_s

    def run(self) -> None:
        steps = self._steps()
        try:
            self._take(steps)
        except Exception as error:  # noqa: BLE001 - the main thread reports every client error
            self.error = error
        self.is_idle.set()
        self._close_requested.wait()
        try:
            steps.close()
        except Exception:  # the broker may have exited already
            logger.debug("%s: cannot close a client", self.name, exc_info=True)

    def _take(self, steps: Steps) -> None:
        for has_demonstrated in steps:
            if has_demonstrated:
                self.has_demonstrated.set()
            if self._close_requested.is_set() or (
                has_demonstrated and self._stop_requested.is_set()
            ):
                return
            self._stop_requested.wait(self._step_interval_s)
