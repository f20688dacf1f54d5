"""The rules of each internal topic other than `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from coordinator_state.apply.share_partitions import SHARE_STATE
from coordinator_state.apply.topic_rules import TopicRules
from coordinator_state.apply.transactions import TRANSACTION_STATE

TOPIC_RULES: Final[Mapping[str, TopicRules[Any, Any]]] = {
    topic.name: topic for topic in (TRANSACTION_STATE, SHARE_STATE)
}
"""By their names, in the order in which their tables are written."""
