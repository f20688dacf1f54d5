"""Limits how many operations of one kind run and wait at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore


class Busy(Exception):
    """No slot is free; the message asks the client to retry."""


class Slots:
    """Slots for operations of one kind.

    Args:
        kind: the operations, as the message of `Busy` names them.
        at_once: the maximum number of running operations.
        waiting: the maximum number of queued operations.
        wait_s: the maximum time in the queue.
    """

    def __init__(self, kind: str, at_once: int, *, waiting: int = 0, wait_s: float = 0) -> None:
        self._kind, self._at_once, self._wait_s = kind, at_once, wait_s
        self._places = BoundedSemaphore(at_once + waiting)
        self._working = BoundedSemaphore(at_once)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a slot while the block runs.

        Raises:
            Busy: no slot is free, or none became free in time.
        """
        if not self._places.acquire(blocking=False):
            raise self._busy()
        try:
            if not self._working.acquire(timeout=self._wait_s):
                raise self._busy()
            try:
                yield
            finally:
                self._working.release()
        finally:
            self._places.release()

    def _busy(self) -> Busy:
        return Busy(
            f"{self._kind}: at most {self._at_once} are computed at once, and no slot is free. "
            "Retry in a few seconds."
        )
