"""Requests to group coordinators: ListGroups, the Describe requests, OffsetFetch, FindCoordinator.

kafka-python's admin client cannot require stable offsets (KIP-447), and fails at the first group
that is still loading. Here one request has many groups, and a group is retried while its
coordinator is loading, moving or unreachable. Needs Kafka 3.0 or later (OffsetFetch v8, KIP-709).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.admin import ConfigResourceType
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.api_key import ApiKey
from kafka.protocol.broker_version_data import BrokerVersionData
from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, CoordinatorType, FindCoordinatorRequest

from coordinator_state.replay.groups import CONSUMER, SHARE, STREAMS
from coordinator_state.replay.partitioner import partition_for
from coordinator_state.wire.primitives import uuid_from_text, uuid_text
from streaming.errors import ConfigurationError
from streaming.kafka.client import KafkaClient, chunks
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.connections import TransientFailure
from streaming.kafka.fetch import LogClient
from streaming.kafka.log_requests import metadata_request
from streaming.kafka.messages import (
    ConsumerGroupDescribeRequest,
    ShareGroupDescribeRequest,
    StreamsGroupDescribeRequest,
)
from streaming.kafka.offset_fetch import NO_ERROR, OffsetFetchAnswer

# Keeps an answer to a few megabytes, even for groups with thousands of partitions.
_GROUPS_PER_REQUEST: Final = 200
_KEYS_PER_REQUEST: Final = 1_000
# A streams group that cannot be described fails the whole request, so each has its own request.
_DESCRIBE_REQUESTS: Final = {
    CONSUMER: (ConsumerGroupDescribeRequest, _GROUPS_PER_REQUEST),
    SHARE: (ShareGroupDescribeRequest, _GROUPS_PER_REQUEST),
    STREAMS: (StreamsGroupDescribeRequest, 1),
}
_TOPICS_PER_REQUEST: Final = 1_000
_OFFSETS_RETENTION: Final = "offsets.retention.minutes"
_TRANSACTION_MAX_TIMEOUT: Final = "transaction.max.timeout.ms"
_NEW_IN_4_4: Final = (ApiKey.TxnOffsetCommit, 6)
"""A request of the group coordinator, and its first version that only Kafka 4.4 answers."""
_SOFTWARE: Final = "coordinator-state"
_DELETE_RETENTION: Final = "delete.retention.ms"
_MISSING_ACLS: Final = {
    kafka_errors.ClusterAuthorizationFailedError: "DescribeConfigs on the cluster",
    kafka_errors.GroupAuthorizationFailedError: "Describe on the groups asked for (on group * for "
    "all)",
    kafka_errors.TopicAuthorizationFailedError: "Describe on the topics that the groups read",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group of a ListGroups answer; `group_type` is None from a broker before 3.8."""

    group_type: str | None
    state: str
    protocol_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMember:
    """A member of a Stable classic group of a DescribeGroups answer."""

    client_id: str
    client_host: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerVersion:
    """A broker's Kafka version, as its API versions tell it, and the finalized features."""

    version: tuple[int, ...]
    features: Mapping[str, int]


class GroupAdmin(KafkaClient):
    """Asks a cluster about its groups; see `KafkaClient` for the errors of all methods."""

    def list_groups(self) -> dict[str, ListedGroup]:
        """Return every group of the cluster that this client is authorised to see."""

        async def attempt() -> dict[str, ListedGroup]:
            groups = {}
            for node_id in self.nodes:
                answer = await self.send(node_id, ListGroupsRequest(min_version=4))
                check(answer.error_code, "list the groups")
                for group in answer.groups:
                    group_type = getattr(group, "group_type", None)
                    groups[group.group_id] = ListedGroup(
                        group_type=group_type.lower() if group_type else None,
                        state=group.group_state,
                        protocol_type=group.protocol_type,
                    )
            return groups

        return self.with_retries("list the groups", attempt)

    def describe_members(self, group_ids: Collection[str]) -> dict[str, dict[str, DescribedMember]]:
        """Return the members by member id, for each of the groups that is classic and Stable."""

        async def ask(node_id: int, groups: list[str]) -> list[Any]:
            answer = await self.send(node_id, DescribeGroupsRequest(groups=groups))
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
        """Return consumer, share or streams groups as the Describe request of their type answers.

        The result omits deleted groups, groups of another type, and streams groups without a
        topology.
        """
        request, groups_per_request = _DESCRIBE_REQUESTS[group_type]

        async def ask(node_id: int, groups: list[str]) -> list[Any]:
            answer = await self.send(node_id, request(group_ids=groups))
            for group in answer.groups:
                if group.error_code == kafka_errors.UnknownError.errno:
                    # `StreamsGroup.asDescribedGroup` throws if there is no topology.
                    group.error_code = kafka_errors.GroupIdNotFoundError.errno
            return list(answer.groups)

        described = self._ask_coordinators(
            group_ids, ask, f"describe the {group_type} group", groups_per_request
        )
        return {group_id: group for group_id, group in described.items() if not group.error_code}

    def broker_versions(self) -> list[BrokerVersion]:
        """Return the version of each broker that answers; at least one does."""
        # A broker refuses a request without the name and version of the client (KIP-511).
        client = {"client_software_name": _SOFTWARE, "client_software_version": "1"}

        async def attempt() -> list[BrokerVersion]:
            requests = [(node_id, ApiVersionsRequest(**client)) for node_id in self.nodes]
            # A broker that is down stays in the metadata for a while.
            answers, failure = await self.send_all(requests)
            versions = [_broker_version(answer) for answer in answers if answer is not None]
            if failure is not None and not versions:
                raise failure
            return versions

        return self.with_retries("ask for the API versions", attempt)

    def offsets_retention_ms(self) -> int:
        """Return `offsets.retention.minutes` of a broker, in milliseconds."""
        return self._broker_config(_OFFSETS_RETENTION) * 60_000

    def transaction_max_timeout_ms(self) -> int:
        """Return `transaction.max.timeout.ms` of a broker."""
        return self._broker_config(_TRANSACTION_MAX_TIMEOUT)

    def _broker_config(self, name: str) -> int:
        kind, owner = ConfigResourceType.BROKER, "of the brokers"
        return self._config(kind, lambda: str(self.nodes[0]), name, owner)

    def delete_retention_ms(self, topic: str) -> int:
        """Return `delete.retention.ms` of a topic."""
        kind, owner = ConfigResourceType.TOPIC, f"of topic {topic}"
        acl = f"DescribeConfigs on topic {topic}"
        return self._config(kind, lambda: topic, _DELETE_RETENTION, owner, acl)

    def _config(
        self,
        kind: ConfigResourceType,
        resource: Callable[[], str],
        name: str,
        whose: str,
        acl: str | None = None,
    ) -> int:
        async def attempt() -> int:
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsRequest.DescribeConfigsResource(
                        resource_type=kind.value,
                        resource_name=resource(),
                        configuration_keys=[name],
                    )
                ]
            )
            answer = await self.send(self.nodes[0], request)
            (result,) = answer.results
            check(result.error_code, f"read {name} {whose}", acl)
            (config,) = result.configs
            return int(config.value)

        return self.with_retries(f"read {name}", attempt)

    def topic_names(self, topic_ids: Collection[str]) -> dict[str, str]:
        """Return topic names by topic id (in Kafka's text form).

        The result omits topics that do not exist or that this client may not see. It is empty for
        brokers before 3.1, which have no metadata by id (KIP-516).
        """

        async def attempt() -> dict[str, str]:
            name_by_id: dict[str, str] = {}
            for chunk in chunks(sorted(topic_ids), _TOPICS_PER_REQUEST):
                request = metadata_request((), map(uuid_from_text, chunk))
                answer = await self.send(self.nodes[0], request)
                for topic in answer.topics:
                    if not topic.error_code and topic.name:
                        name_by_id[uuid_text(topic.topic_id)] = topic.name
            return name_by_id

        return self.with_retries("list the names of topics", attempt)

    def unauthorised_topics(self, topics: Collection[str]) -> set[str]:
        """Return the topics that this client may not describe: OffsetFetch omits their offsets."""

        async def attempt() -> set[str]:
            unauthorised: set[str] = set()
            for chunk in chunks(sorted(topics), _TOPICS_PER_REQUEST):
                answer = await self.send(self.nodes[0], metadata_request(chunk))
                unauthorised |= {
                    topic.name
                    for topic in answer.topics
                    if topic.error_code == kafka_errors.TopicAuthorizationFailedError.errno
                }
            return unauthorised

        return self.with_retries("describe topics", attempt)

    def offset_fetch(
        self,
        partitions: Mapping[str, Collection[tuple[str, int]] | None],
        *,
        require_stable: bool = False,
    ) -> dict[str, list[OffsetFetchAnswer]]:
        """Fetch committed offsets of many groups, for the given partitions or for all (None)."""
        Group = OffsetFetchRequest.OffsetFetchRequestGroup

        async def ask(node_id: int, groups: list[str]) -> list[Any]:
            request = OffsetFetchRequest(
                groups=[
                    Group(group_id=group, topics=_request_topics(partitions[group]))
                    for group in groups
                ],
                require_stable=require_stable,
                min_version=8,
                # From version 10 on topics are named by id, and a deleted topic has no id.
                max_version=9,
            )
            answer = await self.send(node_id, request)
            return list(answer.groups)

        fetched = self._ask_coordinators(partitions, ask, "fetch the offsets of group")
        return {group_id: list(_offset_answers(group)) for group_id, group in fetched.items()}

    def await_coordinators(self, log_partitions: int) -> None:
        """Wait until a coordinator has loaded every log partition.

        ListGroups of a broker that just started omits groups that it has not loaded, without an
        error. OffsetFetch has an error for them. So this sends an OffsetFetch without partitions
        for one made-up group per log partition.
        """
        names = (f"coordinator-state-{number}" for number in count())
        probes: dict[int, str] = {}
        while len(probes) < log_partitions:
            name = next(names)
            probes.setdefault(partition_for(name, log_partitions), name)
        self.offset_fetch(dict.fromkeys(probes.values(), ()))

    def find_coordinator(self, group_id: str) -> Any:
        """Return FindCoordinator's answer for a group: `node_id`, `host` and `port`."""

        async def attempt() -> Any:
            return (await self._find_coordinators([group_id]))[group_id]

        return self.with_retries("find the coordinator", attempt)

    def _ask_coordinators(
        self,
        group_ids: Collection[str],
        ask: Callable[[int, list[str]], Awaitable[list[Any]]],
        operation: str,
        groups_per_request: int = _GROUPS_PER_REQUEST,
    ) -> dict[str, Any]:
        """Return the coordinator's answer for each group; retry only groups without an answer."""
        answered: dict[str, Any] = {}

        async def attempt() -> None:
            missing = [group for group in group_ids if group not in answered]
            by_node: dict[int, list[str]] = defaultdict(list)
            for group_id, coordinator in (await self._find_coordinators(missing)).items():
                by_node[coordinator.node_id].append(group_id)
            failure: TransientFailure | None = None
            for node_id, groups in by_node.items():
                for chunk in chunks(groups, groups_per_request):
                    for group in await ask(node_id, chunk):
                        try:
                            check(group.error_code, f"{operation} {group.group_id}")
                        except TransientFailure as error:
                            failure = error
                        else:
                            answered[group.group_id] = group
            if failure is not None:
                raise failure

        self.with_retries(f"{operation}s", attempt)
        return answered

    async def _find_coordinators(self, group_ids: Iterable[str]) -> dict[str, Any]:
        """Return FindCoordinator's answers by group id; within an attempt."""
        coordinator_by_group: dict[str, Any] = {}
        for keys in chunks(group_ids, _KEYS_PER_REQUEST):
            request = FindCoordinatorRequest(
                key_type=CoordinatorType.GROUP.value, coordinator_keys=keys, min_version=4
            )
            answer = await self.send(self.nodes[0], request)
            for coordinator in answer.coordinators:
                check(coordinator.error_code, f"find the coordinator of {coordinator.key}")
                coordinator_by_group[coordinator.key] = coordinator
        return coordinator_by_group


def check(error_code: int, operation: str, acl: str | None = None) -> None:
    """Raise the error of an error code; an unknown group id is an answer, not an error.

    `acl` is the one that the operation needs, if it is not the usual one of such an error.

    Raises:
        ConfigurationError: missing authorisation, or a feature of the cluster that is off.
        TransientFailure: Kafka marks the error as retriable.
        kafka.errors.KafkaError: any other error.
    """
    if error_code in (0, kafka_errors.GroupIdNotFoundError.errno):
        return
    kind = kafka_errors.for_code(error_code)
    if issubclass(kind, kafka_errors.AuthorizationError):
        raise ConfigurationError(
            f"not authorised to {operation} ({kind.__name__}): this client's principal needs the "
            f"ACL {acl or _MISSING_ACLS.get(kind, 'Describe on it')}"
        )
    if kind is kafka_errors.UnsupportedVersionError:
        raise ConfigurationError(
            f"cannot {operation}: the brokers refuse the request, because the "
            "feature of this group type is off in the cluster (see kafka-features.sh describe)"
        )
    if kind.retriable:
        raise TransientFailure(f"{operation}: {kind.__name__}")
    raise kind(f"cannot {operation}")


def _broker_version(answer: Any) -> BrokerVersion:
    check(answer.error_code, "ask for the API versions")
    api_versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    version = BrokerVersionData(api_versions=api_versions).broker_version
    # kafka-python (3.0) knows releases up to 4.3.
    _, newest = api_versions.get(_NEW_IN_4_4[0], (0, 0))
    return BrokerVersion(
        version=max(version, (4, 4)) if newest >= _NEW_IN_4_4[1] else version,
        features={
            feature.name: feature.max_version_level for feature in answer.finalized_features or ()
        },
    )


def _request_topics(partitions: Collection[tuple[str, int]] | None) -> list[Any] | None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLocation:
    """`leader` and `coordinator` are broker ids; they differ only while leadership moves."""

    log_partition: int
    log_partitions: int
    leader: int
    coordinator: int
    host: str
    port: int


def locate_group(
    group_id: str, bootstrap_servers: str, kafka: Mapping[str, str] | None = None
) -> GroupLocation:
    """Ask the cluster for the topic's partitions and for the group's coordinator.

    Raises:
        ConfigurationError: no broker at the address, no topic yet, or no authorisation.
    """
    config = kafka_client_config(kafka or {})
    with (
        LogClient(bootstrap_servers, config) as log,
        GroupAdmin(bootstrap_servers, config) as admin,
    ):
        leaders = log.describe().leaders
        log_partition = partition_for(group_id, len(leaders))
        coordinator = admin.find_coordinator(group_id)
        return GroupLocation(
            log_partition=log_partition,
            log_partitions=len(leaders),
            leader=leaders[log_partition][0],
            coordinator=coordinator.node_id,
            host=coordinator.host,
            port=coordinator.port,
        )
