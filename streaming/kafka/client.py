"""The client of a cluster: requests that are retried after transient failures.

Clients for logs, offsets and groups are built on it. Metadata is fetched on first use and after
every failure, never by a timer.

Transient failures are retried with exponential back-off: moved leaders and coordinators, restarting
brokers, lost connections, timeouts, and after the first contact also refused logins. The first
contact has a shorter timeout and ends with a `ConfigurationError`: retries do not fix a wrong
address or setting.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

import tenacity

from streaming.errors import ConfigurationError
from streaming.kafka.connections import BrokerConnections, NodeId, TransientFailure
from streaming.kafka.log_requests import metadata_request
from streaming.kafka.outage import LOGGED_AFTER_S, Outage

T = TypeVar("T")
AnyClient = TypeVar("AnyClient", bound="KafkaClient")

FIRST_CONTACT_TIMEOUT_MS: Final = 15_000
RETRY_TIMEOUT_MS: Final = 60_000
TRIES_ONCE_MS: Final = 1
"""For callers with their own retries: the first failure raises, and nothing is logged."""

_FIRST_BACKOFF_S: Final = 0.1
_LONGEST_BACKOFF_S: Final = 2.0
_LONGEST_BACKOFF_OF_RUN_S: Final = 10.0
_OWN_RETRIES_MS: Final = 5_000
"""A caller with at most this timeout asks again later, and logs failures itself."""


class KafkaClient:
    """Sends requests to a cluster with retries; a context manager that closes the connections.

    Calls block. Only one thread at a time may call. Coroutines run on an IO thread of kafka-python,
    within an attempt of `with_retries`. The first attempt connects.

    Args:
        bootstrap_servers: HOST:PORT, several separated by commas.
        kafka_config: keyword arguments for kafka-python, see `kafka_client_config`.
        first_contact_timeout_ms: how long calls retry until a broker has answered a request.
        retry_timeout_ms: how long calls retry after that.
        has_worked: whether these settings have already worked, for instance in another process;
            then `retry_timeout_ms` applies from the start.
        stop: an event that ends the retries.

    Calls raise:
        ConfigurationError: no broker at the address, no authorisation, a wrong security setting, or
            brokers that are too old.
        TimeoutError: no usable answer for `retry_timeout_ms`, or until `stop`.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any] | None = None,
        *,
        first_contact_timeout_ms: int = FIRST_CONTACT_TIMEOUT_MS,
        retry_timeout_ms: int = RETRY_TIMEOUT_MS,
        has_worked: bool = False,
        stop: threading.Event | None = None,
    ) -> None:
        self.connections = BrokerConnections(
            bootstrap_servers, kafka_config or {}, has_worked=has_worked
        )
        self.nodes: list[NodeId] = []
        self._first_contact_timeout_ms = first_contact_timeout_ms
        self._retry_timeout_ms = retry_timeout_ms
        self._stop = stop or threading.Event()
        self._is_stale = True

    def __enter__(self: AnyClient) -> AnyClient:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the IO thread."""
        self.connections.close()

    def expire_metadata(self) -> None:
        """Mark the metadata as stale, so the next attempt fetches it first."""
        self._is_stale = True

    def with_retries(self, operation: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """Run `attempt` on the IO thread, and retry it while it raises `TransientFailure`.

        Raises:
            ConfigurationError: the cluster was not reached within the first contact timeout.
            TimeoutError: after the first contact, the retry timeout passed or `stop` was set.
        """
        had_worked = self.connections.has_worked
        timeout_ms = self._retry_timeout_ms if had_worked else self._first_contact_timeout_ms

        async def attempt_with_metadata() -> T:
            try:
                await self._prepare()
                return await attempt()
            except TransientFailure:
                self.expire_metadata()
                raise

        cluster = f"Kafka at {self.connections.bootstrap_servers}"
        # Only a run retries for longer than a minute, maybe for hours.
        longest_backoff_s = (
            _LONGEST_BACKOFF_OF_RUN_S if timeout_ms > RETRY_TIMEOUT_MS else _LONGEST_BACKOFF_S
        )
        logged_after_s = LOGGED_AFTER_S if timeout_ms > _OWN_RETRIES_MS else math.inf
        # Without a first contact the address may be wrong, and a person is waiting.
        outage = Outage(cluster, operation, logged_after_s=logged_after_s if had_worked else 0)

        try:
            answer = tenacity.Retrying(
                retry=tenacity.retry_if_exception_type(TransientFailure),
                wait=tenacity.wait_exponential(multiplier=_FIRST_BACKOFF_S, max=longest_backoff_s)
                + tenacity.wait_random(0, _FIRST_BACKOFF_S),
                stop=tenacity.stop_any(
                    tenacity.stop_before_delay(timeout_ms / 1000),
                    tenacity.stop_when_event_set(self._stop),
                ),
                sleep=tenacity.sleep_using_event(self._stop),
                before_sleep=lambda state: outage.failed(
                    state.outcome.exception() if state.outcome else None, state.upcoming_sleep
                ),
                reraise=True,
            )(self.connections.run, attempt_with_metadata)
        except TransientFailure as error:
            if self.connections.has_worked:
                raise TimeoutError(
                    f"{cluster}: cannot {operation}, retried for {timeout_ms / 1000:.0f} s: {error}"
                ) from error
            raise ConfigurationError(
                f"cannot reach {cluster}: {error}; {outage.attempts + 1} attempts in "
                f"{outage.seconds:.0f} s; check --bootstrap-servers, --kafka security.protocol and "
                "the login"
            ) from error
        outage.ended()
        return answer

    async def _prepare(self) -> None:
        """Fetch stale metadata; the first step of each attempt."""
        if self._is_stale:
            await self._refresh_metadata()
            self._is_stale = False

    async def _refresh_metadata(self) -> None:
        """Fetch the brokers from any one that answers."""
        answer = await self.connections.ask_any(lambda: metadata_request([]))
        self.nodes = [broker.node_id for broker in answer.brokers]
        if not self.nodes:
            raise TransientFailure("the cluster's metadata has no brokers")

    async def send(self, node_id: NodeId, request: Any) -> Any:
        """Send a request to one broker, within an attempt."""
        answer = await self.connections.send(node_id, request)
        self.connections.note_contact()
        return answer

    async def send_all(
        self, requests: Iterable[tuple[NodeId, Any]], timeout_ms: int | None = None
    ) -> tuple[list[Any], TransientFailure | None]:
        """Send requests to brokers, all at once; return the answers and one failure.

        The answer of a broker that failed is None. Without `timeout_ms` the timeout is that of an
        answer of a few bytes.
        """
        connections = self.connections
        timeout_ms = timeout_ms or connections.short_answer_timeout_ms
        sent = [
            connections.begin(connections.send, node_id, request, timeout_ms)
            for node_id, request in requests
        ]
        answers: list[Any] = []
        failure: TransientFailure | None = None
        for future in sent:
            try:
                answers.append(await future)
                connections.note_contact()
            except TransientFailure as error:
                answers.append(None)
                failure = error
        return answers, failure


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
