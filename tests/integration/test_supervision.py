"""A query whose tables could not be written for a while, on a real broker."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.run import supervision
from streaming.tables import delta
from streaming.tables.schemas import GROUP_OFFSETS, LOAD_PROGRESS, OFFSET_COMMITS, Table
from tests.support.brokers.commits import commit, committed, create_topic, rows_of_group
from tests.support.brokers.running_query import running
from tests.support.brokers.secured_broker import TOKEN_USER, SecuredBroker
from tests.support.brokers.token_endpoint import CLIENT_ID, CLIENT_SECRET, token_endpoint
from tests.support.eventually import Eventually

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

GROUP = TOPIC = "supervised"


def test_it_goes_on_once_they_can(
    quiet_broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "streaming.run.supervision")
    monkeypatch.setattr(supervision, "_FIRST_BACKOFF_S", 0.1)
    writing, failures = delta.writing, list[Table]()

    @contextmanager
    def writing_later(path: str) -> Iterator[None]:
        with writing(path):
            if failures and path == failures[0].path(str(tables)):
                raise OSError(f"no space left for {failures.pop(0).name}")
            yield

    create_topic(quiet_broker, TOPIC)
    commit(quiet_broker, GROUP, TOPIC, 1)
    with running(quiet_broker, spark, tmp_path, eventually) as tables:
        eventually(lambda: committed(tables, GROUP) == [1], 120)
        monkeypatch.setattr(delta, "writing", writing_later)
        # Of the last two, all other tables of the micro-batch are written by then.
        failures += [GROUP_OFFSETS, LOAD_PROGRESS, LOAD_PROGRESS]
        commit(quiet_broker, GROUP, TOPIC, 2)
        eventually(lambda: committed(tables, GROUP) == [2], 120)
        failures += [GROUP_OFFSETS]
        commit(quiet_broker, GROUP, TOPIC, 3)
        eventually(lambda: committed(tables, GROUP) == [3], 120)

    assert not failures
    failure = r"no space left for (\w+)|restarting it in (\S+) s"
    assert [re.findall(failure, line) for line in _restarts(caplog)] == [
        [("group_offsets", ""), ("", "0.1")],
        [("load_progress", ""), ("", "0.2")],
        [("load_progress", ""), ("", "0.4")],
        # A micro-batch was finished in between.
        [("group_offsets", ""), ("", "0.1")],
    ]
    history = rows_of_group(tables, OFFSET_COMMITS.name, GROUP)
    assert sorted(row["committed_offset"] for row in history) == [1, 2, 3]


def test_brokers_that_are_away_for_longer_than_it_waits_are_waited_for_again(
    stoppable_broker: EmbeddedBroker,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "streaming.run.supervision")
    broker = stoppable_broker
    create_topic(broker, TOPIC)
    commit(broker, GROUP, TOPIC, 1)
    with running(broker, spark, tmp_path, eventually, retry_timeout="2 seconds") as tables:
        eventually(lambda: committed(tables, GROUP) == [1], 120)
        broker.kill()
        # The second time it fails without having had contact.
        eventually(lambda: len(_restarts(caplog)) >= 2, 120)
        broker.start()
        # Until then it answers a commit with NOT_COORDINATOR.
        broker.wait_until_loaded()
        commit(broker, GROUP, TOPIC, 2)
        eventually(lambda: committed(tables, GROUP) == [2], 120)

    first = _restarts(caplog)[0]
    assert "\n" not in first
    assert f"the query failed (Kafka at {broker.bootstrap_servers}: cannot " in first
    assert " for 2 s: " in first


def test_a_token_endpoint_that_refuses_is_waited_for_like_a_broker(
    secured_broker: SecuredBroker,
    spark: SparkSession,
    tmp_path: Path,
    eventually: Eventually,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Past `retry_timeout` too: later queries log in for the first time, and are refused."""
    caplog.set_level(logging.WARNING, "streaming.run.supervision")
    broker = secured_broker.broker
    create_topic(broker, TOPIC)
    commit(broker, GROUP, TOPIC, 1)
    secret = secured_broker.file("client-secret", CLIENT_SECRET)
    with (
        token_endpoint() as endpoint,
        secured_broker.allowing(TOKEN_USER, ("read", "topic", OFFSETS_TOPIC)),
    ):
        # Each login asks for a token, and none is good for longer than a session of the broker.
        endpoint.life_s = 0
        kafka = secured_broker.oauth(endpoint.url) | {
            "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
            "sasl.oauthbearer.client.credentials.client.secret.file": secret,
        }
        address = secured_broker.tls_address
        with running(
            *(broker, spark, tmp_path, eventually),
            bootstrap_servers=address,
            kafka=kafka,
            retry_timeout="2 seconds",
        ) as tables:
            eventually(lambda: committed(tables, GROUP) == [1], 120)
            endpoint.answer = 403
            eventually(lambda: len(_restarts(caplog)) >= 2, 120)
            endpoint.answer = 200
            commit(broker, GROUP, TOPIC, 2)
            eventually(lambda: committed(tables, GROUP) == [2], 120)
    assert "refuses client" in _restarts(caplog)[0]


def _restarts(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "streaming.run.supervision"
    ]
