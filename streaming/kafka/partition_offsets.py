"""The offsets of a log in a sample, for those who read samples without a Kafka client.

`streaming.kafka.log_offsets` asks the brokers for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

UNAVAILABLE: Final = "unavailable"
"""The state of a log whose leader does not answer."""


class TopicPartition(NamedTuple):
    """A partition of a user topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsets:
    """A partition's log in a sample; offsets are None unless its state is `present`."""

    topic: str
    partition: int
    state: str
    topic_id: str | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    last_stable_offset: int | None = None
    end_markers: int | None = None
