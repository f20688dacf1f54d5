"""Real brokers for the benches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.fresh_broker import FreshBroker, fresh_brokers


@pytest.fixture
def fresh_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshBroker]:
    """A function that starts a broker, which is stopped at the end of the test."""
    with fresh_brokers(tmp_path_factory) as start:
        yield start
