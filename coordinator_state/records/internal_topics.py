"""The internal topics whose records this package reads.

Source: `Topic.java` in org.apache.kafka.common.internals at 4.4.0.
"""

from __future__ import annotations

from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
"""`Topic.GROUP_METADATA_TOPIC_NAME`."""
TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
"""`Topic.TRANSACTION_STATE_TOPIC_NAME`."""
SHARE_STATE_TOPIC: Final = "__share_group_state"
"""`Topic.SHARE_GROUP_STATE_TOPIC_NAME`."""
OTHER_TOPICS: Final = (TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC)
INTERNAL_TOPICS: Final = (OFFSETS_TOPIC, *OTHER_TOPICS)
