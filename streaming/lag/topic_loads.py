"""Whether the tables have all of an internal topic other than `__consumer_offsets`."""

from __future__ import annotations

from streaming.tables.reader import TableReader
from streaming.tables.schemas import STATE_CURRENT, TOPIC_PROGRESS


def is_read_whole(reader: TableReader, topic: str) -> bool:
    """Whether the tables have every record of the topic up to its end, and none in quarantine."""
    columns = ["log_topic", "next_offset", "high_watermark", "records_quarantined"]
    rows = reader.read(TOPIC_PROGRESS.name, columns, [("log_topic", "=", topic)]).to_pylist()
    return bool(rows) and all(
        row["next_offset"] >= row["high_watermark"] and not row["records_quarantined"]
        for row in rows
    )


def is_loaded(reader: TableReader, topic: str) -> bool:
    """Whether `run` follows the topic, and has loaded each of its log partitions."""
    of_topic = [("log_topic", "=", topic)]
    states = reader.read(TOPIC_PROGRESS.name, ["log_topic", "state"], of_topic)["state"]
    return bool(states.to_pylist()) and set(states.to_pylist()) == {STATE_CURRENT}
