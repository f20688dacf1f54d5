"""A fixture of the tests of several topics."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streaming.source import coordinator_log, topic_plan
from tests.support.logs.topic_clients import Clients, topic_clients


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    """The logs that the source reads, by topic."""
    found = topic_clients()
    monkeypatch.setattr(topic_plan, "LogClient", lambda _, __, topic, **_options: found[topic])
    monkeypatch.setattr(coordinator_log, "shared_log_client", lambda *given: found[given[2]])
    yield found
    # Ends the waits in flight.
    for client in found.values():
        client.fail(TimeoutError("the test is over"))
