"""Fixtures that several files use."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from streaming.source import coordinator_log as source
from tests.memory_log import MemoryLog, MemoryLogClient


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> MemoryLogClient:
    """Three log partitions: ten commits of two groups, one transaction, nothing."""
    logs = {0: MemoryLog(), 1: MemoryLog(), 2: MemoryLog()}
    for number in range(10):
        logs[0].commit(f"group-{number % 2}", number)
    logs[1].transaction("transactional", 7)
    client = MemoryLogClient(logs)
    monkeypatch.setattr(source, "LogClient", lambda *_: client)
    monkeypatch.setattr(source, "shared_log_client", lambda *_: client)
    return client


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Commands configure logging for the whole process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    for name in ("coordinator_state", "streaming"):
        logging.getLogger(name).setLevel(logging.NOTSET)
