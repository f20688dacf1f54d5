"""Real brokers for the integration tests: some that they share, and fresh ones on request.

A broker's log stays readable until its test is over; the folders are pytest's temporary ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from coordinator_state.model.plain_commits import PlainCommits
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.fresh_broker import FreshBroker, fresh_brokers
from tests.support.brokers.object_store import served_object_store
from tests.support.brokers.secured_broker import SecuredBroker, running_secured_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """The broker that most tests share: its `__consumer_offsets` exists and is loaded.

    Take groups and topics of your own names; leave it running.
    """
    with EmbeddedBroker(folder=tmp_path_factory.mktemp("broker")) as shared:
        shared.create_offsets_topic()
        yield shared


@pytest.fixture(scope="session")
def _stoppable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(folder=tmp_path_factory.mktemp("stoppable-broker")) as shared:
        shared.create_offsets_topic()
        yield shared


@pytest.fixture
def stoppable_broker(_stoppable: EmbeddedBroker) -> EmbeddedBroker:
    """A shared broker that a test may stop, kill, and give other logs.

    It runs when a test begins. Logs of earlier tests may be there.
    """
    if not _stoppable.is_running:
        _stoppable.start()
    _stoppable.wait_until_loaded()
    return _stoppable


@pytest.fixture(scope="session")
def secured_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker with an authorizer that tests share; whom they allow something they forbid it."""
    with running_secured_broker(tmp_path_factory.mktemp("secured-broker")) as shared:
        yield shared


@pytest.fixture
def fresh_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshBroker]:
    """A function that starts a broker with an empty folder, for tests that need a log alone."""
    with fresh_brokers(tmp_path_factory) as start:
        yield start


@pytest.fixture(scope="session")
def loaded_broker(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[EmbeddedBroker, PlainCommits]]:
    """A broker that has loaded 50,000 commits, and these; tests only read its log."""
    count = 50_000
    from_ms = time.time_ns() // 1_000_000 - count
    commits = PlainCommits(count=count, key_count=2_000, from_ms=from_ms)
    with EmbeddedBroker(folder=tmp_path_factory.mktemp("loaded-broker")) as broker:
        broker.create_offsets_topic()
        broker.load_logs(commits.logs())
        broker.wait_until_loaded()
        yield broker, commits


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of an S3 with an empty bucket, given to delta-rs and the SDKs by environment."""
    with served_object_store() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield environment["AWS_ENDPOINT_URL"]
