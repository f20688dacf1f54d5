"""ConsumerGroupHeartbeat, for which kafka-python has no message, in Kafka's own schema language.

Source: clients/src/main/resources/common/message/ConsumerGroupHeartbeat*.json; KIP-848.
"""

from __future__ import annotations

import sys

from kafka.protocol.api_message import ApiMessage

_HERE = sys.modules[__name__]


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """A member of a consumer group joins, goes on, or leaves."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """The member's epoch, and what it has from now on."""
