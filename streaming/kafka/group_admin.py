"""Questions to group coordinators: ListGroups, the Describe requests, OffsetFetch, FindCoordinator.

kafka-python's own admin client does not ask for stable offsets (KIP-447) and gives up at the
first group that is still loading. Here one request carries many groups, and a group whose
coordinator is loading, moving or away is asked again until it answers. Needs Kafka 3.0 or later
(OffsetFetch v8, KIP-709).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from types import TracebackType
from typing import Any, Final, TypeVar

import tenacity
from kafka import errors as kafka_errors
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from coordinator_state.groups import CONSUMER, SHARE, STREAMS
from coordinator_state.partitioner import partition_for
from coordinator_state.primitives import uuid_from_text, uuid_text
from streaming.answers.offset_fetch import NO_ERROR, OffsetFetchAnswer, TopicPartition
from streaming.errors import ConfigurationError
from streaming.kafka.connections import BrokerConnections, NodeId, TryAgain
from streaming.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)

T = TypeVar("T")

FIRST_CONTACT_TIMEOUT_S: Final = 15.0
RETRY_TIMEOUT_S: Final = 60.0

# An answer of a few megabytes at most, also where groups have thousands of partitions.
_GROUPS_PER_REQUEST: Final = 200
_KEYS_PER_REQUEST: Final = 1_000
# One streams group that cannot be described fails all that are asked for beside it.
_DESCRIBE_REQUESTS: Final = {
    CONSUMER: (ConsumerGroupDescribeRequest, _GROUPS_PER_REQUEST),
    SHARE: (ShareGroupDescribeRequest, _GROUPS_PER_REQUEST),
    STREAMS: (StreamsGroupDescribeRequest, 1),
}
_TOPICS_PER_REQUEST: Final = 1_000
_RETENTION: Final = "offsets.retention.minutes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as ListGroups tells it; `group_type` is None from a broker before 3.8."""

    group_type: str | None
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member of a classic group as DescribeGroups tells it while the group is Stable."""

    client_id: str
    client_host: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The broker that FindCoordinator names for a group."""

    node_id: int
    host: str
    port: int


class GroupAdmin:
    """Asks a cluster about its groups; a context manager that closes its connections.

    Args:
        bootstrap_servers: HOST:PORT, several with commas.
        kafka_config: keyword arguments for kafka-python, see `kafka_client_config`.
        retry_timeout_s: how long a group that does not answer is asked again.

    All methods raise:
        ConfigurationError: no broker there, no authorisation, or brokers older than 3.0.
        TimeoutError: some group gave no answer for `retry_timeout_s`.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any] | None = None,
        *,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
    ) -> None:
        self._connections = BrokerConnections(bootstrap_servers, kafka_config or {})
        self._retry_timeout_s = retry_timeout_s
        self._nodes: list[NodeId] = []

    def __enter__(self) -> GroupAdmin:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def list_groups(self) -> dict[str, ListedGroup]:
        """Every group of the cluster that this client may see."""

        async def attempt() -> dict[str, ListedGroup]:
            groups = {}
            for node_id in self._nodes:
                answer = await self._send(node_id, ListGroupsRequest(min_version=4))
                _check(answer.error_code, "list the groups")
                for group in answer.groups:
                    group_type = getattr(group, "group_type", None)
                    groups[group.group_id] = ListedGroup(
                        group_type=group_type.lower() if group_type else None,
                        state=group.group_state,
                        protocol_type=group.protocol_type,
                    )
            return groups

        return self._patiently(attempt)

    def describe_members(self, group_ids: Collection[str]) -> dict[str, dict[str, DescribedMember]]:
        """Members by member id, for each of the groups that is classic and Stable."""

        async def ask(node_id: int, groups: list[str]) -> list[Any]:
            answer = await self._send(node_id, DescribeGroupsRequest(groups=groups))
            return list(answer.groups)

        described = self._ask_coordinators(group_ids, ask, "describe the group")
        return {
            group_id: {
                member.member_id: DescribedMember(
                    client_id=member.client_id,
                    client_host=member.client_host,
                    assignment=bytes(member.member_assignment or b""),
                )
                for member in group.members
            }
            for group_id, group in described.items()
            if group.group_state == "Stable"
        }

    def describe_groups(self, group_type: str, group_ids: Collection[str]) -> dict[str, Any]:
        """Consumer, share or streams groups as the Describe request of their type answers.

        A group that is gone, of another type, or a streams group without a topology is left out.
        """
        request, groups_per_request = _DESCRIBE_REQUESTS[group_type]

        async def ask(node_id: int, groups: list[str]) -> list[Any]:
            answer = await self._send(node_id, request(group_ids=groups))
            for group in answer.groups:
                if group.error_code == kafka_errors.UnknownError.errno:
                    # `StreamsGroup.asDescribedGroup` throws where there is no topology.
                    group.error_code = kafka_errors.GroupIdNotFoundError.errno
            return list(answer.groups)

        described = self._ask_coordinators(
            group_ids, ask, f"describe the {group_type} group", groups_per_request
        )
        return {group_id: group for group_id, group in described.items() if not group.error_code}

    def offsets_retention_ms(self) -> int:
        """`offsets.retention.minutes` of a broker, in milliseconds."""

        async def attempt() -> int:
            node_id = self._nodes[0]
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsRequest.DescribeConfigsResource(
                        resource_type=ConfigResourceType.BROKER.value,
                        resource_name=str(node_id),
                        configuration_keys=[_RETENTION],
                    )
                ]
            )
            answer = await self._send(node_id, request)
            (result,) = answer.results
            _check(result.error_code, f"read {_RETENTION} of the brokers")
            (config,) = result.configs
            return int(config.value) * 60_000

        return self._patiently(attempt)

    def topic_names(self, topic_ids: Collection[str]) -> dict[str, str]:
        """Names by topic id (in Kafka's text form) of those topics that exist and may be seen.

        Brokers before 3.1 cannot be asked by id (KIP-516) and are taken to know none.
        """

        async def attempt() -> dict[str, str]:
            found: dict[str, str] = {}
            for chunk in _chunks(sorted(topic_ids), _TOPICS_PER_REQUEST):
                request = MetadataRequest(
                    topics=[
                        MetadataRequest.MetadataRequestTopic(
                            topic_id=uuid_from_text(topic_id), name=None
                        )
                        for topic_id in chunk
                    ],
                    allow_auto_topic_creation=False,
                    min_version=12,
                )
                answer = await self._send(self._nodes[0], request)
                for topic in answer.topics:
                    if not topic.error_code and topic.name:
                        found[uuid_text(topic.topic_id)] = topic.name
            return found

        return self._patiently(attempt)

    def offset_fetch(
        self,
        partitions: Mapping[str, Collection[TopicPartition] | None],
        *,
        require_stable: bool = False,
    ) -> dict[str, list[OffsetFetchAnswer]]:
        """OffsetFetch of many groups: of each the named partitions, or all that it has (None)."""
        Group = OffsetFetchRequest.OffsetFetchRequestGroup

        async def ask(node_id: int, groups: list[str]) -> list[Any]:
            request = OffsetFetchRequest(
                groups=[
                    Group(group_id=group, topics=_request_topics(partitions[group]))
                    for group in groups
                ],
                require_stable=require_stable,
                min_version=8,
                # From version 10 on topics go by id, and a deleted topic has none.
                max_version=9,
            )
            answer = await self._send(node_id, request)
            return list(answer.groups)

        fetched = self._ask_coordinators(partitions, ask, "fetch the offsets of group")
        return {group_id: list(_offset_answers(group)) for group_id, group in fetched.items()}

    def await_coordinators(self, log_partitions: int) -> None:
        """Wait until every log partition's coordinator has loaded it.

        ListGroups leaves out, without an error, what a broker that just started does not coordinate
        yet. OffsetFetch tells it, so one made-up group per log partition is asked for nothing.
        """
        names = (f"coordinator-state-{number}" for number in count())
        probes: dict[int, str] = {}
        while len(probes) < log_partitions:
            name = next(names)
            probes.setdefault(partition_for(name, log_partitions), name)
        self.offset_fetch(dict.fromkeys(probes.values(), ()))

    def find_coordinator(self, group_id: str) -> Coordinator:
        """The broker that coordinates a group."""

        async def attempt() -> Coordinator:
            found = (await self._find_coordinators([group_id]))[group_id]
            return Coordinator(node_id=found.node_id, host=found.host, port=found.port)

        return self._patiently(attempt)

    # ---------------------------------------------------------------- on the caller's thread

    def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run `attempt` on the IO thread until it does not raise `TryAgain`, or time is up."""
        had_contact = self._connections.has_contact
        timeout_s = self._retry_timeout_s if had_contact else FIRST_CONTACT_TIMEOUT_S

        async def attempt_with_metadata() -> T:
            if not self._nodes:
                await self._refresh_metadata()
            try:
                return await attempt()
            except TryAgain:
                # A coordinator may have moved to a broker that is not known yet.
                self._nodes = []
                raise

        try:
            return tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(TryAgain),
                wait=tenacity.wait_exponential(multiplier=0.1, max=2),
                stop=tenacity.stop_before_delay(timeout_s),
                reraise=True,
            )(self._connections.run, attempt_with_metadata)
        except TryAgain as error:
            where = f"Kafka at {self._connections.bootstrap_servers}"
            if self._connections.has_contact:
                raise TimeoutError(f"{where}: {error} (for {timeout_s:.0f} s)") from error
            raise ConfigurationError(
                f"cannot reach {where}: {error}; "
                "check --bootstrap-servers and --kafka security.protocol"
            ) from error

    def _ask_coordinators(
        self,
        group_ids: Collection[str],
        ask: Callable[[int, list[str]], Awaitable[list[Any]]],
        operation: str,
        groups_per_request: int = _GROUPS_PER_REQUEST,
    ) -> dict[str, Any]:
        """Ask each group's coordinator until every group has answered; answers are kept."""
        answered: dict[str, Any] = {}

        async def attempt() -> None:
            missing = [group for group in group_ids if group not in answered]
            by_node: dict[int, list[str]] = defaultdict(list)
            for group_id, coordinator in (await self._find_coordinators(missing)).items():
                by_node[coordinator.node_id].append(group_id)
            failure: TryAgain | None = None
            for node_id, groups in by_node.items():
                for chunk in _chunks(groups, groups_per_request):
                    for group in await ask(node_id, chunk):
                        try:
                            _check(group.error_code, f"{operation} {group.group_id}")
                        except TryAgain as error:
                            failure = error
                        else:
                            answered[group.group_id] = group
            if failure is not None:
                raise failure

        self._patiently(attempt)
        return answered

    # ---------------------------------------------------------------- on the IO thread

    async def _refresh_metadata(self) -> None:
        answer = await self._connections.ask_any(lambda: MetadataRequest(topics=[], min_version=1))
        self._nodes = [broker.node_id for broker in answer.brokers]
        if not self._nodes:
            raise TryAgain("the cluster names no brokers")

    async def _find_coordinators(self, group_ids: Sequence[str]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for keys in _chunks(group_ids, _KEYS_PER_REQUEST):
            request = FindCoordinatorRequest(
                key_type=CoordinatorType.GROUP.value, coordinator_keys=keys, min_version=4
            )
            answer = await self._send(self._nodes[0], request)
            for coordinator in answer.coordinators:
                _check(coordinator.error_code, f"find the coordinator of {coordinator.key}")
                found[coordinator.key] = coordinator
        return found

    async def _send(self, node_id: NodeId, request: Any) -> Any:
        answer = await self._connections.send(node_id, request)
        self._connections.has_contact = True
        return answer


def _check(error_code: int, operation: str) -> None:
    """Raise what an error code means; that there is no such group is an answer."""
    if error_code in (0, kafka_errors.GroupIdNotFoundError.errno):
        return
    kind = kafka_errors.for_code(error_code)
    if issubclass(kind, kafka_errors.AuthorizationError):
        raise ConfigurationError(
            f"not authorised to {operation} ({kind.__name__}): this client's principal needs the "
            "ACL Describe on groups and topics"
        )
    if kind.retriable:
        raise TryAgain(f"cannot {operation}: {kind.__name__}")
    raise kind(f"cannot {operation}")


def _request_topics(partitions: Collection[TopicPartition] | None) -> list[Any] | None:
    if partitions is None:
        return None
    Topic = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    return [Topic(name=topic, partition_indexes=indexes) for topic, indexes in by_topic.items()]


def _offset_answers(group: Any) -> Iterator[OffsetFetchAnswer]:
    for topic in group.topics:
        for partition in topic.partitions:
            code = partition.error_code
            yield OffsetFetchAnswer(
                topic=topic.name,
                partition=partition.partition_index,
                committed_offset=partition.committed_offset,
                leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata or "",
                error=kafka_errors.for_code(code).message if code else NO_ERROR,
            )


def _chunks(items: Sequence[str], size: int) -> Iterator[list[str]]:
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
