"""Requests that kafka-python has no messages for, in Kafka's own schema language.

kafka-python makes a message class of the JSON schema of its name, here those beside this file.

Source: clients/src/main/resources/common/message/{Consumer,Share,Streams}GroupDescribe*.json at
4.2.0; KIP-848, KIP-932, KIP-1071.
"""

from __future__ import annotations

import sys

from kafka.protocol.api_message import ApiMessage

_HERE = sys.modules[__name__]


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Consumer groups by id."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Their epochs, members, current and target assignments."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Share groups by id."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Their epochs, members and assignments."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Streams groups by id."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Their epochs, topology, members, current and target tasks."""
