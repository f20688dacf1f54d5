"""Real brokers for the integration tests: one that they share, and fresh ones on request.

A broker's log stays readable until its test is over; the folders are pytest's temporary ones.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.fresh_broker import FreshBroker, fresh_brokers
from tests.support.brokers.secured_broker import SecuredBroker, running_secured_broker


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
    with fresh_brokers(tmp_path_factory) as start:
        yield start
