"""Requests that kafka-python lacks, as JSON schemas of Kafka.

kafka-python builds a message class from the JSON schema of the same name in this folder.

Source: clients/src/main/resources/common/message/{Consumer,Share,Streams}GroupDescribe*.json at
4.2.0; KIP-848, KIP-932, KIP-1071.
"""

from __future__ import annotations

import sys

from kafka.protocol.api_message import ApiMessage

_HERE = sys.modules[__name__]


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Asks for consumer groups by group id."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Consumer groups: epochs, members, current and target assignments."""


class ShareGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Asks for share groups by group id."""


class ShareGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Share groups: epochs, members and assignments."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Asks for streams groups by group id."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg]
    """Streams groups: epochs, topology, members, current and target tasks."""
