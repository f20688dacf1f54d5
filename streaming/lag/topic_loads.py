"""Whether the tables have all of an internal topic other than `__consumer_offsets`."""

from __future__ import annotations

from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATE_CURRENT, TOPIC_PROGRESS


def is_loaded(reader: TableReader, topic: str) -> bool:
    """Whether `run` follows the topic, and has loaded each of its log partitions."""
    of_topic = [("log_topic", "=", topic)]
    states = reader.read(TOPIC_PROGRESS.name, ["log_topic", "state"], of_topic)["state"]
    return bool(states.to_pylist()) and set(states.to_pylist()) == {STATE_CURRENT}
