"""Retries of a client, against connections in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from streaming.errors import ConfigurationError
from streaming.kafka import client
from streaming.kafka.client import KafkaClient
from streaming.kafka.connections import TransientFailure


class Connections:
    """Connections to one broker; its node answers requests, or none."""

    bootstrap_servers = "broker:9092"

    def __init__(self, *, is_answering: bool) -> None:
        self.is_answering = is_answering
        self.has_worked = False

    def note_contact(self) -> None:
        self.has_worked = True

    def run(self, coroutine: Callable[[], Awaitable[Any]]) -> Any:
        async def awaited() -> Any:
            return await coroutine()

        return asyncio.run(awaited())

    async def ask_any(self, _request_for: Callable[[], Any]) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=1)])

    async def send(self, _node_id: int, request: Any) -> Any:
        if not self.is_answering:
            raise TransientFailure("no connection")
        return request


@pytest.mark.parametrize(
    ("is_answering", "error", "text"),
    [
        (True, TimeoutError, "Kafka at broker:9092: cannot ask, retried for 0 s: loading"),
        (False, ConfigurationError, "cannot reach Kafka at broker:9092: no connection; "),
    ],
)
def test_settings_are_not_wrong_once_a_broker_has_answered(
    is_answering: bool, error: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = Connections(is_answering=is_answering)
    monkeypatch.setattr(client, "BrokerConnections", lambda *_, **__: connections)
    asking = KafkaClient(connections.bootstrap_servers, first_contact_timeout_ms=250)

    async def attempt() -> None:
        await asking.send(asking.nodes[0], "request")
        raise TransientFailure("loading")

    with pytest.raises(error, match=text):
        asking.with_retries("ask", attempt)
