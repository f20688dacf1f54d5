"""The Connect protocol: what a group of protocol type "connect" keeps in its member bytes.

Both messages are an int16 version and a body that is never flexible. Version 0 is written under
the protocol "default" (eager), 1 under "compatible" (KIP-415), 2 under "sessioned" (KIP-507), which
lays out the same fields as 1. A version above the newest known is read as the newest.

Subscription (a worker's metadata): its URL and how far it has read the topic of configurations; v1
its current assignment, as bytes of an assignment. Assignment: the leader, and by connector the
tasks to run, of which -1 is the connector itself; v1 what to give up, and for how long the leader
waits before it hands out lost tasks again, in milliseconds.

Source: connect/runtime/src/main/java/org/apache/kafka/connect/runtime/distributed/
{ConnectProtocol,IncrementalCooperativeConnectProtocol}.java at 4.2.0.
"""

from __future__ import annotations

from coordinator_state.wire.schema import ANY_VERSION, Field, Schema

NEWEST_VERSION = 2

_CONNECTOR_TASKS = (
    Field(name="connector", type="string"),
    Field(name="tasks", type="int32", is_array=True),
)

CONNECT_SUBSCRIPTION = Schema(
    name="ConnectProtocolSubscription",
    versions=(0, NEWEST_VERSION),
    fields=(
        Field(name="url", type="string"),
        Field(name="config-offset", type="int64"),
        Field(name="allocation", type="bytes", versions=(1, ANY_VERSION), is_nullable=True),
    ),
)

CONNECT_ASSIGNMENT = Schema(
    name="ConnectProtocolAssignment",
    versions=(0, NEWEST_VERSION),
    fields=(
        Field(name="error", type="int16"),
        Field(name="leader", type="string"),
        Field(name="leader-url", type="string"),
        Field(name="config-offset", type="int64"),
        Field(
            name="assignment",
            type="struct",
            is_array=True,
            is_nullable=True,
            fields=_CONNECTOR_TASKS,
        ),
        Field(
            name="revoked",
            type="struct",
            is_array=True,
            is_nullable=True,
            versions=(1, ANY_VERSION),
            fields=_CONNECTOR_TASKS,
        ),
        Field(name="delay", type="int32", versions=(1, ANY_VERSION), default=0),
    ),
)
