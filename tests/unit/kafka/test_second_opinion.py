"""A topic is gone once a second broker does not know it either."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from coordinator_state.insight.lag import GONE
from streaming.kafka.log_offsets import LogOffsetsClient
from streaming.kafka.partition_offsets import UNAVAILABLE, TopicPartition

UNKNOWN_TOPIC = 3


class Brokers(LogOffsetsClient):
    """Brokers that know some topics, each with a partition without a leader."""

    def __init__(self, topics_by_node: Mapping[int, set[str]]) -> None:
        self._topics_by_node = topics_by_node
        self.nodes = list(topics_by_node)

    def with_retries(self, _operation: str, attempt: Any) -> Any:
        return asyncio.run(attempt())

    async def send_all(self, requests: Any, timeout_ms: int | None = None) -> Any:  # noqa: ARG002
        """Nobody leads."""
        assert not [*requests]
        return [], None

    async def send(self, node_id: int | str, request: Any) -> Any:
        assert isinstance(node_id, int)
        partition = SimpleNamespace(partition_index=0, leader_id=-1)
        topics = [
            SimpleNamespace(name=topic.name, error_code=0, topic_id=None, partitions=[partition])
            if topic.name in self._topics_by_node[node_id]
            else SimpleNamespace(
                name=topic.name, error_code=UNKNOWN_TOPIC, topic_id=None, partitions=[]
            )
            for topic in request.topics
        ]
        return SimpleNamespace(topics=topics)


@pytest.mark.parametrize(
    ("topics_by_node", "state"),
    [
        ({1: set(), 2: {"t"}}, UNAVAILABLE),
        ({1: set(), 2: set()}, GONE),
        ({1: set()}, GONE),
        ({1: {"t"}, 2: set()}, UNAVAILABLE),
    ],
)
def test_a_second_broker_is_asked(topics_by_node: Mapping[int, set[str]], state: str) -> None:
    (sample,) = Brokers(topics_by_node).sample([TopicPartition("t", 0)])
    assert sample.state == state
