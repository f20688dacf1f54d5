"""Brokers of one test alone; `conftest.py` of each folder that needs them has the fixture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import pytest

from streaming.local.broker.embedded import EmbeddedBroker


class FreshBroker(Protocol):
    """Starts another broker, which is stopped at the end of the test."""

    def __call__(self, **arguments: Any) -> EmbeddedBroker: ...


@contextmanager
def fresh_brokers(folders: pytest.TempPathFactory) -> Iterator[FreshBroker]:
    """A function that starts a broker with an empty folder, for tests that stop or damage it."""
    started: list[EmbeddedBroker] = []

    def start(**arguments: Any) -> EmbeddedBroker:
        arguments.setdefault("folder", folders.mktemp("fresh-broker"))
        fresh = EmbeddedBroker(**arguments)
        started.append(fresh)
        fresh.start()
        return fresh

    try:
        yield start
    finally:
        for fresh in started:
            fresh.close()
