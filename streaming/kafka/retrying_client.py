"""Requests that are retried until every coordinator has answered.

One request has many groups. Only groups without an answer are retried: their coordinator is
loading, moving or unreachable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Final, TypeVar

import tenacity
from kafka import errors as kafka_errors
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest, MetadataRequest

from streaming.errors import ConfigurationError
from streaming.kafka.connections import BrokerConnections, NodeId, TransientFailure

T = TypeVar("T")
R = TypeVar("R", bound="RetryingClient")

FIRST_CONTACT_TIMEOUT_S: Final = 15.0
RETRY_TIMEOUT_S: Final = 60.0

# Keeps an answer to a few megabytes, even for groups with thousands of partitions.
GROUPS_PER_REQUEST: Final = 200
_MISSING_ACLS: Final = {
    kafka_errors.ClusterAuthorizationFailedError: "DescribeConfigs on the cluster",
    kafka_errors.GroupAuthorizationFailedError: "Describe on the groups asked for (on group * for "
    "all)",
    kafka_errors.TopicAuthorizationFailedError: "Describe on the topics that the groups read",
}
_KEYS_PER_REQUEST: Final = 1_000


class RetryingClient:
    """Sends requests to a cluster with retries; a context manager that closes the connections.

    Args:
        bootstrap_servers: HOST:PORT, several separated by commas.
        kafka_config: keyword arguments for kafka-python, see `kafka_client_config`.
        retry_timeout_s: how long requests are retried after the first contact.
        first_contact_timeout_s: how long they are retried until then.

    Requests raise:
        ConfigurationError: no broker at the address, no authorisation, or brokers older than 3.0.
        TimeoutError: a group has no answer after `retry_timeout_s`.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any] | None = None,
        *,
        retry_timeout_s: float = RETRY_TIMEOUT_S,
        first_contact_timeout_s: float = FIRST_CONTACT_TIMEOUT_S,
    ) -> None:
        self._connections = BrokerConnections(bootstrap_servers, kafka_config or {})
        self._retry_timeout_s = retry_timeout_s
        self._first_contact_timeout_s = first_contact_timeout_s
        self.nodes: list[NodeId] = []

    def __enter__(self: R) -> R:
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

    # --- on the caller's thread

    def with_retries(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run `attempt` on the IO thread; retry transient failures, up to a timeout."""
        had_contact = self._connections.has_contact
        timeout_s = self._retry_timeout_s if had_contact else self._first_contact_timeout_s

        async def attempt_with_metadata() -> T:
            if not self.nodes:
                await self._refresh_metadata()
            try:
                return await attempt()
            except TransientFailure:
                # A coordinator may have moved to a broker that the stale metadata lacks.
                self.nodes = []
                raise

        try:
            return tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(TransientFailure),
                wait=tenacity.wait_exponential(multiplier=0.1, max=2),
                stop=tenacity.stop_before_delay(timeout_s),
                reraise=True,
            )(self._connections.run, attempt_with_metadata)
        except TransientFailure as error:
            where = f"Kafka at {self._connections.bootstrap_servers}"
            if self._connections.has_contact:
                raise TimeoutError(f"{where}: {error} (retried for {timeout_s:.0f} s)") from error
            raise ConfigurationError(
                f"cannot reach {where}: {error}; "
                "check --bootstrap-servers and --kafka security.protocol"
            ) from error

    def ask_coordinators(
        self,
        group_ids: Collection[str],
        ask: Callable[[int, list[str]], Awaitable[list[Any]]],
        operation: str,
        groups_per_request: int = GROUPS_PER_REQUEST,
    ) -> dict[str, Any]:
        """Return the coordinator's answer for each group; retry only groups without an answer."""
        answered: dict[str, Any] = {}

        async def attempt() -> None:
            missing = [group for group in group_ids if group not in answered]
            by_node: dict[int, list[str]] = defaultdict(list)
            for group_id, coordinator in (await self.find_coordinators(missing)).items():
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

        self.with_retries(attempt)
        return answered

    # --- on the IO thread

    async def _refresh_metadata(self) -> None:
        answer = await self._connections.ask_any(lambda: MetadataRequest(topics=[], min_version=1))
        self.nodes = [broker.node_id for broker in answer.brokers]
        if not self.nodes:
            raise TransientFailure("the cluster's metadata has no brokers")

    async def find_coordinators(self, group_ids: Sequence[str]) -> dict[str, Any]:
        """Return FindCoordinator's answers by group id; runs on the IO thread."""
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

    async def send(self, node_id: NodeId, request: Any) -> Any:
        """Send to one broker, and record that it answered; runs on the IO thread."""
        answer = await self._connections.send(node_id, request)
        self._connections.has_contact = True
        return answer


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
        raise TransientFailure(f"cannot {operation}: {kind.__name__}")
    raise kind(f"cannot {operation}")


def chunks(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
