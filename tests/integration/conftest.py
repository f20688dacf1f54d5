"""Real brokers for the integration tests: one that they share, and fresh ones on request.

A broker's log stays readable until its test is over; the folders are pytest's temporary ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.secured_broker import SecuredBroker, running_secured_broker


class FreshBroker(Protocol):
    """Starts another broker, which is stopped at the end of the test."""

    def __call__(self, **arguments: Any) -> EmbeddedBroker: ...


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The broker that tests share: its `__consumer_offsets` exists and is loaded.

    Take groups and topics of your own names; leave it running.
    """
    with EmbeddedBroker(folder=tmp_path_factory.mktemp("broker")) as shared:
        shared.create_offsets_topic()
        yield shared


@pytest.fixture(scope="session")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker with an authorizer that tests share; whom they allow something they forbid it."""
    with running_secured_broker(tmp_path_factory.mktemp("secured-broker")) as shared:
        yield shared


@pytest.fixture
def fresh_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshBroker]:
    """A function that starts a broker with an empty folder, for tests that stop or damage it."""
    started: list[EmbeddedBroker] = []

    def start(**arguments: Any) -> EmbeddedBroker:
        arguments.setdefault("folder", tmp_path_factory.mktemp("fresh-broker"))
        fresh = EmbeddedBroker(**arguments)
        started.append(fresh)
        fresh.start()
        return fresh

    try:
        yield start
    finally:
        for fresh in started:
            fresh.close()
