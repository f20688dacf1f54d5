"""The Connect protocol: the member bytes of groups with protocol type "connect".

Both messages are an int16 version and a body that is never flexible. A version above the newest
known one is read as the newest.

- Version 0: protocol "default" (eager).
- Version 1: protocol "compatible" (KIP-415).
- Version 2: protocol "sessioned" (KIP-507), with the same fields as version 1.

Subscription (a worker's metadata): the worker's URL and its offset in the config topic; since v1
also its current assignment, as bytes of an assignment.

Assignment: the leader, and the tasks to run by connector; task -1 is the connector itself. Since v1
also the revoked tasks, and the delay in milliseconds before the leader reassigns lost tasks.

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
