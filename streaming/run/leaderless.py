"""Log partitions of an internal topic that have no leader."""

from __future__ import annotations

import logging
from collections.abc import Collection

from streaming.kafka.leaders import of_topic
from streaming.tables.topic_progress import TopicProgress

logger = logging.getLogger(__name__)


def set_leaderless(progress: TopicProgress, log_partitions: Collection[int]) -> bool:
    """Set and log which log partitions of a topic are leaderless; return whether this changed."""
    if not progress.set_leaderless(log_partitions):
        return False
    if log_partitions:
        logger.warning(
            "log partitions%(of_topic)s without a leader: %(waiting)s; reading the others, and "
            "these once they have a leader",
            {"of_topic": of_topic(progress.topic), "waiting": numbers_text(log_partitions)},
        )
    return True


def numbers_text(log_partitions: Collection[int]) -> str:
    """Format the numbers of log partitions: "0, 2"."""
    return ", ".join(map(str, sorted(log_partitions)))
