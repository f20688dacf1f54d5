"""Kafka's own message classes, in a Java process that py4j drives.

They are the oracle of our codec: `serialize` is how a broker writes a record, `formatted` how it
reads one and what its message formatters print. No broker runs, and a JRE is enough.

Source: GroupCoordinatorRecordSerde, ConsumerProtocol, the generated CoordinatorRecordJsonConverters
and org.apache.kafka.tools.consumer.{Offsets,GroupMetadata}MessageFormatter.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal
from unittest import mock

from py4j import java_gateway
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError, get_return_value

from streaming.jvm.jars import KAFKA_VERSION, kafka_jars
from streaming.jvm.java import find_java

Json = dict[str, Any]
Coordinator = Literal["group", "transaction", "share"]

_CLOSE_TIMEOUT_S = 30


class KafkaMessages:
    """A Java process with the jars of one Kafka version; close it, or use it in a `with`.

    The records are those of one of its coordinators.
    """

    def __init__(self, version: str = KAFKA_VERSION, coordinator: Coordinator = "group") -> None:
        port, self._process = launch_gateway(
            classpath=":".join(str(jar) for jar in kafka_jars(version)),
            java_path=str(find_java()),
            die_on_exit=True,
            return_proc=True,
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        java, kafka = self._gateway.jvm.java, self._gateway.jvm.org.apache.kafka
        runtime = kafka.coordinator.common.runtime
        # Each name on the way to a class is a question to the JVM, so they are asked once.
        self._wrap = java.nio.ByteBuffer.wrap
        self._consumer_record = kafka.clients.consumer.ConsumerRecord
        self._coordinator_record = runtime.CoordinatorRecord
        self._versioned = kafka.server.common.ApiMessageAndVersion
        package, formatters = getattr(kafka.coordinator, coordinator), kafka.tools.consumer
        self._serde = getattr(package, f"{coordinator.title()}CoordinatorRecordSerde")()
        self._converters = package.generated.CoordinatorRecordJsonConverters
        if coordinator == "group":
            offsets_formatter = formatters.OffsetsMessageFormatter()
            group_formatter = formatters.GroupMetadataMessageFormatter()
            self._formatters = {0: offsets_formatter, 1: offsets_formatter, 2: group_formatter}
        elif coordinator == "transaction":
            self._formatters = {0: formatters.TransactionLogMessageFormatter()}
        else:
            state_formatter = formatters.group.share.ShareGroupStateMessageFormatter()
            self._formatters = dict.fromkeys((0, 1), state_formatter)
        self._printed = java.io.ByteArrayOutputStream()
        self._print_stream = java.io.PrintStream(self._printed)
        self._parse = self._gateway.jvm.com.fasterxml.jackson.databind.ObjectMapper().readTree
        self._to_bytes = kafka.common.protocol.MessageUtil.toVersionPrefixedBytes
        messages, protocol = kafka.common.message, kafka.clients.consumer.internals.ConsumerProtocol
        self._protocol_converters = {
            "subscription": messages.ConsumerProtocolSubscriptionJsonConverter,
            "assignment": messages.ConsumerProtocolAssignmentJsonConverter,
        }
        self._protocol_readers: dict[str, Callable[[Any], Any]] = {
            "subscription": protocol.deserializeConsumerProtocolSubscription,
            "assignment": protocol.deserializeConsumerProtocolAssignment,
        }

    def __enter__(self) -> KafkaMessages:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the Java process, which lives as long as its standard input is open."""
        self._gateway.shutdown()
        self._process.stdin.close()
        self._process.wait(_CLOSE_TIMEOUT_S)

    def serialize(
        self, record_type: int, key: Json, version: int = 0, value: Json | None = None
    ) -> tuple[bytes, bytes | None]:
        """A record as a broker writes it; fields that the version lacks are left out."""
        java_key = self._converters.readRecordKeyFromJson(self._node(key), record_type)
        if value is None:
            record = self._coordinator_record.tombstone(java_key)
            return bytes(self._serde.serializeKey(record)), None
        java_value = self._converters.readRecordValueFromJson(
            self._node(value), record_type, version
        )
        record = self._coordinator_record.record(java_key, self._versioned(java_value, version))
        return bytes(self._serde.serializeKey(record)), bytes(self._serde.serializeValue(record))

    def key_json(self, key: bytes) -> Json:
        """A key of any type as Kafka reads it."""
        message = self._serde.deserialize(self._wrap(key), None).key()
        data: Json = json.loads(self._converters.writeRecordKeyAsJson(message).toString())
        return {"type": message.apiKey(), "data": data}

    def formatted(self, record_type: int, key: bytes, value: bytes | None) -> Json | None:
        """What Kafka's formatter of the type prints, None where it refuses the bytes."""
        record = self._consumer_record("__consumer_offsets", 0, 0, key, value)
        try:
            with _py4j_alone():
                self._formatters[record_type].writeTo(record, self._print_stream)
        except Py4JJavaError:
            return None
        printed = self._printed.toString("UTF-8")
        self._printed.reset()
        document: Json = json.loads(printed)
        return document

    def converted(self, key: bytes, value: bytes | None) -> Json | None:
        """What a broker reads in a record of any type, in the shape of the formatters."""
        raw_value = None if value is None else self._wrap(value)
        try:
            with _py4j_alone():
                versioned = self._serde.deserialize(self._wrap(key), raw_value).value()
        except Py4JJavaError:
            return None
        body: Json | None = None
        if versioned is not None:
            version = versioned.version()
            node = self._converters.writeRecordValueAsJson(versioned.message(), version)
            body = {"version": version, "data": json.loads(node.toString())}
        return {"key": self.key_json(key), "value": body}

    def serialize_protocol(self, message: str, version: int, fields: Json) -> bytes:
        """Subscription or assignment bytes as a consumer writes them."""
        node = self._node(fields)
        java_message = self._protocol_converters[message].read(node, version)
        return bytes(self._to_bytes(version, java_message))

    def protocol_json(self, message: str, version: int, raw: bytes) -> Json | None:
        """Subscription or assignment bytes as Kafka reads them, None where it refuses them.

        All fields that `version` has are given, with their defaults where the bytes lack them.
        """
        try:
            with _py4j_alone():
                java_message = self._protocol_readers[message](self._wrap(raw))
        except Py4JJavaError:
            return None
        node = self._protocol_converters[message].write(java_message, version)
        fields: Json = json.loads(node.toString())
        return fields

    def _node(self, document: Json) -> Any:
        return self._parse(json.dumps(document))


def _py4j_alone() -> AbstractContextManager[object]:
    """Let py4j raise exceptions of this JVM.

    A session of Spark in this process makes py4j ask Spark's JVM about the exceptions of all JVMs.
    """
    return mock.patch.object(java_gateway, "get_return_value", get_return_value)
