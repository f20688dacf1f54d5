"""Limits for work of one kind: how much runs at once, and how much waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore


class Busy(Exception):
    """No place is free. The text is for the client, who may retry."""


class Slots:
    """Places for work of one kind.

    Args:
        what: the work, as the reason of `Busy` names it.
        at_once: how much of it runs at once.
        waiting: how much more may wait.
        wait_s: for so long.
    """

    def __init__(self, what: str, at_once: int, *, waiting: int = 0, wait_s: float = 0) -> None:
        self._what, self._at_once, self._wait_s = what, at_once, wait_s
        self._places = BoundedSemaphore(at_once + waiting)
        self._working = BoundedSemaphore(at_once)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """A place while the block runs.

        Raises:
            Busy: there is none, or none became free in time.
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
            f"{self._what}: at most {self._at_once} are computed at once, and no place is free. "
            "Try again in some seconds."
        )
