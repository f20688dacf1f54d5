"""Waiting for a condition; `tests/conftest.py` has the fixture `eventually`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import pytest

T = TypeVar("T")

_POLL_S = 0.05


class Eventually(Protocol):
    """Polls `look` until it returns something true; fails with the last answer at the deadline."""

    def __call__(self, look: Callable[[], T], timeout_s: float = 120.0) -> T: ...


def wait_until(look: Callable[[], T], timeout_s: float = 120.0) -> T:
    """The first true answer of `look`; the test fails at the deadline."""
    pause = threading.Event()
    deadline = time.monotonic() + timeout_s
    while not (answer := look()):
        if time.monotonic() > deadline:
            pytest.fail(f"not so within {timeout_s} s, last answer: {answer!r}")
        pause.wait(_POLL_S)
    return answer
