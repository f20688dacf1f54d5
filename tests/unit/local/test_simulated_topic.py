"""Produce requests for a simulated log; the leader of the log partition moves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import LeaderNotAvailableError, NotLeaderForPartitionError

from coordinator_state.model.plain_commits import PlainCommits
from streaming.errors import ConfigurationError
from streaming.kafka import client
from streaming.kafka.connections import TransientFailure
from streaming.local.simulation.topic import OffsetsTopic

_MOVED_TO = 2
_TOO_LARGE = 10


class MovingLeader:
    """Connections to a cluster whose brokers give these answers, then success."""

    bootstrap_servers = "broker:9092"
    has_worked = True

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.sent_to: list[int] = []

    def run(self, coroutine: Callable[[], Awaitable[Any]]) -> Any:
        async def awaited() -> Any:
            return await coroutine()

        return asyncio.run(awaited())

    async def ask_any(self, _request_for: Callable[[], Any]) -> Any:
        leader = _MOVED_TO if self.sent_to else 1
        partition = SimpleNamespace(partition_index=0, leader_id=leader)
        return SimpleNamespace(
            brokers=[SimpleNamespace(node_id=1), SimpleNamespace(node_id=_MOVED_TO)],
            topics=[SimpleNamespace(partitions=[partition])],
        )

    async def send(self, node_id: int, _request: Any, _timeout_ms: int) -> Any:
        self.sent_to.append(node_id)
        answer = self.answers.pop(0) if self.answers else 0
        if isinstance(answer, Exception):
            raise answer
        partition = SimpleNamespace(error_code=answer)
        return SimpleNamespace(responses=[SimpleNamespace(partition_responses=[partition])])

    def close(self) -> None:
        pass


def append_to(cluster: MovingLeader, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(client, "BrokerConnections", lambda *_, **_options: cluster)
    commits = PlainCommits(count=10, key_count=3, from_ms=0, seed=1, log_partitions=1)
    with OffsetsTopic(cluster.bootstrap_servers) as topic:
        return topic.append(commits.logs())


@pytest.mark.parametrize("error", [NotLeaderForPartitionError, LeaderNotAvailableError])
def test_a_batch_goes_to_the_new_leader(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = MovingLeader(error.errno, error.errno)  # type: ignore[attr-defined]
    assert append_to(cluster, monkeypatch) == 10
    assert cluster.sent_to == [1, _MOVED_TO, _MOVED_TO]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (_TOO_LARGE, "the cluster refused records for __consumer_offsets-0: MessageSizeTooLarge"),
        (TransientFailure("no answer"), "the cluster is unreachable: no answer"),
    ],
)
def test_a_batch_that_may_have_been_appended_is_sent_once(
    answer: int | Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = MovingLeader(answer)
    with pytest.raises(ConfigurationError, match=said):
        append_to(cluster, monkeypatch)
    assert cluster.sent_to == [1]
