"""A real broker, asked over sockets.

Each client has a connection of its own, since a broker reads no further request of one whose join
it has parked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from kafka.protocol import consumer, producer
from kafka.protocol.admin import DeleteGroupsRequest, DescribeTransactionsRequest
from kafka.protocol.metadata import FindCoordinatorRequest

from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.log import Producer
from coordinator_state.model.offset_manager import Partition
from coordinator_state.model.requests import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    FetchedOffset,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupResponse,
    MemberIdentity,
    OffsetCommitRequest,
    Reply,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.support.clients import heartbeat_messages
from tests.support.clients.broker_connection import PATIENCE_S, BrokerConnection

_TRY_AGAIN = frozenset({14, 15, 16, 51})
"""Loading, not available, not the coordinator, concurrent transactions."""
_POLL_S = 0.05
_KEEPS_MEMBER_ID_VERSION = 3
_SKIPS_NO_ASSIGNMENT_VERSION = 8
_PROTOCOL_TYPE_VERSION = 7


class BrokerClients:
    """A real broker; `close` ends the connections."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._servers = bootstrap_servers
        self._connections: dict[str, BrokerConnection] = {}
        self._waiting: dict[Reply[Any], Callable[[], Any]] = {}
        self._producers: dict[str, Producer] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _connection(self, client: str) -> BrokerConnection:
        if client not in self._connections:
            self._connections[client] = BrokerConnection(self._servers, client)
        return self._connections[client]

    def _ask(self, request: Any, version: int) -> Any:
        connection = self._connection("another")
        connection.send(request, version)
        return connection.receive()

    def join(self, client: str, request: JoinGroupRequest) -> Reply[JoinGroupResponse]:
        Metadata = consumer.JoinGroupRequest.JoinGroupRequestProtocol
        connection = self._connection(client)
        version = consumer.JoinGroupRequest.max_version
        if not request.supports_skipping_assignment:
            version = _SKIPS_NO_ASSIGNMENT_VERSION
        if not request.requires_known_member_id:
            version = _KEEPS_MEMBER_ID_VERSION
        connection.send(
            consumer.JoinGroupRequest(
                group_id=request.group_id,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocols=[Metadata(name=n, metadata=m) for n, m in request.protocols],
                reason=None,
            ),
            version,
        )
        # Older answers do not tell the protocol type.
        protocol_type = None if version >= _PROTOCOL_TYPE_VERSION else request.protocol_type
        return self._wait(connection, lambda answer: _joined(answer, protocol_type))

    def sync(self, client: str, request: SyncGroupRequest) -> Reply[SyncGroupResponse]:
        Assigned = consumer.SyncGroupRequest.SyncGroupRequestAssignment
        connection = self._connection(client)
        connection.send(
            consumer.SyncGroupRequest(
                group_id=request.group_id,
                generation_id=request.generation_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                protocol_type=request.protocol_type,
                protocol_name=request.protocol_name,
                assignments=[
                    Assigned(member_id=member_id, assignment=assignment)
                    for member_id, assignment in request.assignments.items()
                ],
            ),
            5,
        )
        return self._wait(
            connection,
            lambda answer: SyncGroupResponse(
                error_code=ErrorCode(answer.error_code),
                protocol_type=answer.protocol_type,
                protocol_name=answer.protocol_name,
                assignment=bytes(answer.assignment),
            ),
        )

    def _wait(self, connection: BrokerConnection, read: Callable[[Any], Any]) -> Reply[Any]:
        reply: Reply[Any] = Reply()
        self._waiting[reply] = lambda: read(connection.receive())
        connection.await_taken()
        return reply

    def settle(self, *replies: Reply[Any]) -> None:
        for reply in replies:
            if not reply.is_done:
                reply.complete(self._waiting.pop(reply)())

    def heartbeat(
        self, group_id: str, member_id: str, generation_id: int, instance_id: str | None = None
    ) -> ErrorCode:
        request = consumer.HeartbeatRequest(
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance_id,
        )
        return ErrorCode(self._ask(request, 4).error_code)

    def leave(self, group_id: str, members: Sequence[MemberIdentity]) -> LeaveGroupResponse:
        Identity = consumer.LeaveGroupRequest.MemberIdentity
        answer = self._ask(
            consumer.LeaveGroupRequest(
                group_id=group_id,
                members=[
                    Identity(
                        member_id=member.member_id,
                        group_instance_id=member.group_instance_id,
                        reason=None,
                    )
                    for member in members
                ],
            ),
            5,
        )
        return LeaveGroupResponse(
            error_code=ErrorCode(answer.error_code),
            members=tuple(ErrorCode(member.error_code) for member in answer.members),
        )

    def consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupHeartbeatResponse:
        # A member's client id is that of its connection.
        connection = self._connection(request.client_id)
        Partitions = heartbeat_messages.ConsumerGroupHeartbeatRequest.TopicPartitions
        connection.send(
            heartbeat_messages.ConsumerGroupHeartbeatRequest(
                group_id=request.group_id,
                member_id=request.member_id,
                member_epoch=request.member_epoch,
                instance_id=request.group_instance_id,
                rack_id=None,
                rebalance_timeout_ms=request.rebalance_timeout_ms,
                subscribed_topic_names=(
                    None if request.subscribed_topics is None else list(request.subscribed_topics)
                ),
                subscribed_topic_regex=None,
                server_assignor=request.server_assignor,
                topic_partitions=(
                    None
                    if request.owned is None
                    else [
                        Partitions(topic_id=topic_id, partitions=sorted(partitions))
                        for topic_id, partitions in request.owned.items()
                    ]
                ),
            ),
            1,
        )
        answer = connection.receive()
        assigned = None
        if answer.assignment is not None:
            assigned = {
                topic.topic_id: frozenset(topic.partitions)
                for topic in answer.assignment.topic_partitions
            }
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode(answer.error_code),
            member_id=answer.member_id,
            member_epoch=answer.member_epoch,
            assigned=assigned,
        )

    def commit(self, request: OffsetCommitRequest) -> dict[Partition, ErrorCode]:
        Topic = consumer.OffsetCommitRequest.OffsetCommitRequestTopic
        answer = self._ask(
            consumer.OffsetCommitRequest(
                group_id=request.group_id,
                generation_id_or_member_epoch=request.generation_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                retention_time_ms=request.retention_time_ms,
                topics=_topics(request, Topic, Topic.OffsetCommitRequestPartition),
            ),
            request.version,
        )
        return _errors(answer.topics)

    def begin_transaction(self, transactional_id: str) -> None:
        def initialized() -> Any:
            return self._ask(
                producer.InitProducerIdRequest(
                    transactional_id=transactional_id,
                    transaction_timeout_ms=60_000,
                    producer_id=-1,
                    producer_epoch=-1,
                ),
                4,
            )

        if transactional_id not in self._producers:
            # It makes the topic of transactions, too.
            sought = FindCoordinatorRequest(key=transactional_id, key_type=1)
            _until(lambda: self._ask(sought, 3))
            answer = _until(initialized)
            self._producers[transactional_id] = Producer(answer.producer_id, answer.producer_epoch)

    def commit_in_transaction(
        self, transactional_id: str, request: OffsetCommitRequest
    ) -> dict[Partition, ErrorCode]:
        ours = {
            "transactional_id": transactional_id,
            "producer_id": self._producers[transactional_id].producer_id,
            "producer_epoch": self._producers[transactional_id].producer_epoch,
            "group_id": request.group_id,
        }
        added = _until(lambda: self._ask(producer.AddOffsetsToTxnRequest(**ours), 3))
        assert added.error_code == 0
        Topic = producer.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        answer = self._ask(
            producer.TxnOffsetCommitRequest(
                **ours,
                generation_id=request.generation_id,
                member_id=request.member_id,
                group_instance_id=request.group_instance_id,
                topics=_topics(request, Topic, Topic.TxnOffsetCommitRequestPartition),
            ),
            3,
        )
        return _errors(answer.topics)

    def end_transaction(self, transactional_id: str, *, is_commit: bool) -> None:
        ours = self._producers[transactional_id]
        answer = _until(
            lambda: self._ask(
                producer.EndTxnRequest(
                    transactional_id=transactional_id,
                    producer_id=ours.producer_id,
                    producer_epoch=ours.producer_epoch,
                    committed=is_commit,
                ),
                3,
            )
        )
        assert answer.error_code == 0
        # Markers are written behind the answer.
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_complete(transactional_id):
            assert time.monotonic() < deadline, f"{transactional_id} does not end"
            time.sleep(_POLL_S)

    def _is_complete(self, transactional_id: str) -> bool:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (transaction,) = self._ask(request, 0).transaction_states
        return str(transaction.transaction_state).startswith("Complete")

    def fetch(
        self, group_id: str, partitions: Sequence[Partition] | None, *, require_stable: bool = False
    ) -> dict[Partition, FetchedOffset]:
        Group = consumer.OffsetFetchRequest.OffsetFetchRequestGroup
        topics = None
        if partitions is not None:
            topics = [
                Group.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])
                for topic, partition in partitions
            ]
        request = consumer.OffsetFetchRequest(
            groups=[Group(group_id=group_id, topics=topics)], require_stable=require_stable
        )
        (group,) = self._ask(request, 8).groups
        assert group.error_code == 0
        return {
            (topic.name, found.partition_index): FetchedOffset(
                committed_offset=found.committed_offset,
                leader_epoch=found.committed_leader_epoch,
                metadata=found.metadata,
                error_code=ErrorCode(found.error_code),
            )
            for topic in group.topics
            for found in topic.partitions
        }

    def delete_offsets(
        self, group_id: str, partitions: Sequence[Partition]
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        Topic = consumer.OffsetDeleteRequest.OffsetDeleteRequestTopic
        Asked = Topic.OffsetDeleteRequestPartition
        request = consumer.OffsetDeleteRequest(
            group_id=group_id,
            topics=[Topic(name=t, partitions=[Asked(partition_index=p)]) for t, p in partitions],
        )
        answer = self._ask(request, 0)
        return ErrorCode(answer.error_code), _errors(answer.topics)

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
        answer = self._ask(DeleteGroupsRequest(groups_names=list(group_ids)), 2)
        return {result.group_id: ErrorCode(result.error_code) for result in answer.results}


def _joined(answer: Any, protocol_type: str | None) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=ErrorCode(answer.error_code),
        member_id=answer.member_id,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type or (protocol_type if not answer.error_code else None),
        protocol_name=answer.protocol_name or None,
        # Kafka 3 says "" where Kafka 4 says nothing.
        leader=answer.leader or None,
        skip_assignment=bool(answer.skip_assignment),
        members=tuple((m.member_id, m.group_instance_id, m.metadata) for m in answer.members),
    )


def _topics(request: OffsetCommitRequest, topic_of: Any, partition_of: Any) -> list[Any]:
    return [
        topic_of(
            name=offset.topic,
            partitions=[
                partition_of(
                    partition_index=offset.partition,
                    committed_offset=offset.committed_offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            ],
        )
        for offset in request.offsets
    ]


def _errors(topics: Any) -> dict[Partition, ErrorCode]:
    return {
        (topic.name, partition.partition_index): ErrorCode(partition.error_code)
        for topic in topics
        for partition in topic.partitions
    }


def _until(ask: Callable[[], Any]) -> Any:
    """Ask until the transaction coordinator is there, and has ended what was before."""
    deadline = time.monotonic() + PATIENCE_S
    while (answer := ask()).error_code in _TRY_AGAIN:
        assert time.monotonic() < deadline, f"the broker answers {answer}"
        time.sleep(_POLL_S)
    return answer
