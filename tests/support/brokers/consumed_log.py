"""What kafka-python's own consumer reads of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.eventually import wait_until

_LIMIT_S = 120.0


def consumed(
    broker: EmbeddedBroker, ends: Mapping[int, int] | None = None
) -> dict[tuple[int, int], Any]:
    """The records below the ends, or below the log ends, by log partition and record offset."""
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        exclude_internal_topics=False,
    )
    with closing(consumer):
        places = [TopicPartition(OFFSETS_TOPIC, number) for number in ends or range(50)]
        consumer.assign(places)
        if ends is None:
            ends = {at.partition: end for at, end in consumer.end_offsets(places).items()}
        records: dict[tuple[int, int], Any] = {}

        def is_at_the_ends() -> bool:
            for at, batch in consumer.poll(timeout_ms=200).items():
                records.update(
                    ((at.partition, record.offset), record)
                    for record in batch
                    if record.offset < ends[at.partition]
                )
            return all(consumer.position(at) >= ends[at.partition] for at in places)

        wait_until(is_at_the_ends, _LIMIT_S)
        return records
