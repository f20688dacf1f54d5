"""Connections to a cluster's brokers, by kafka-python's connection layer.

It brings TLS, SASL, proxies and protocol versions. Its own search for metadata and its retries stay
out of it: here a request goes to one broker and fails as either something that a later attempt may
cure (`TryAgain`), or something that a person must change (`ConfigurationError`).

Settings that have worked once are not wrong. From then on a refused login, a token endpoint that
refuses, a TLS fault or an unexpected error of kafka-python is a fault that may heal, like a broker
that is away.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from kafka import errors as kafka_errors
from kafka.future import Future
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslBytesRequest,
    SaslBytesResponse,
)

from streaming.errors import ConfigurationError
from streaming.kafka.access_tokens import EndpointTokens
from streaming.kafka.frames import FrameParser
from streaming.kafka.refusals import REFUSED_LOGINS, is_tls_fault, login_advice, tls_advice
from streaming.kafka.secrets import require_no_login
from streaming.kafka.sockets import DIRECT, tls_context

logger = logging.getLogger(__name__)

T = TypeVar("T")

NodeId = int | str

# The frames that are accepted; a response holds at least one batch whatever its limits (KIP-74), so
# this is well above those. It is below 0x15030300, what a TLS alert in answer to plain text looks
# like as the length of a frame.
RECEIVE_MESSAGE_MAX_BYTES: Final = 256 << 20

_RECONNECT_BACKOFF_MAX_MS: Final = 1_000
_FIRST_CONNECT_TIMEOUT_MS: Final = 5_000
_PAUSE_POLL_S: Final = 0.02
# What a broker has at hand; who takes longer is stalled, and another one may lead by now.
_SHORT_ANSWER_TIMEOUT_MS: Final = 10_000
# How many of the known brokers are asked for metadata before the bootstrap servers are.
_KNOWN_METADATA_NODES: Final = 3

_REFUSED_VERSIONS: Final = (
    kafka_errors.IncompatibleBrokerVersion,
    kafka_errors.UnsupportedVersionError,
)
_CONNECTION_LOGGERS: Final = ("kafka.cluster", "kafka.net", "kafka.protocol")
_REQUEST_LOGGER: Final = logging.getLogger("kafka.net.connection")
_BYTE_LOGGER: Final = logging.getLogger("kafka.protocol.parser")
_LOGIN_MESSAGES: Final = (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslBytesRequest,
    SaslBytesResponse,
)


class TryAgain(Exception):
    """A failure that a later attempt with fresh metadata may cure; the text says what and where."""


class BrokerConnections:
    """Sends requests to brokers, on an IO thread of kafka-python.

    `run` blocks its caller; coroutines belong to the IO thread. Nothing is connected before the
    first request.

    Args:
        bootstrap_servers: HOST:PORT, several with commas.
        kafka_config: keyword arguments for kafka-python, see `kafka_client_config`.
        has_worked: whether these settings have already worked, for instance in another process.

    Attributes:
        bootstrap_servers: HOST:PORT, several with commas.
        has_contact: whether a leader has answered; before that, connecting is impatient.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any],
        *,
        has_worked: bool = False,
    ) -> None:
        _quieten_connection_loggers()
        require_no_login(bootstrap_servers)
        self.bootstrap_servers = bootstrap_servers
        self.has_contact = False
        self._has_worked = has_worked
        self._tokens = kafka_config.get("sasl_oauth_token_provider")
        config = {
            "proxy_url": DIRECT,
            "reconnect_backoff_max_ms": _RECONNECT_BACKOFF_MAX_MS,
            **kafka_config,
            "bootstrap_servers": bootstrap_servers,
            "receive_message_max_bytes": RECEIVE_MESSAGE_MAX_BYTES,
        }
        if str(config.get("security_protocol", "")).endswith("SSL"):
            config["ssl_context"] = tls_context(kafka_config)
        self._mechanism = str(config.get("sasl_mechanism", ""))
        # Decoding a large response takes longer than kafka-python expects of one step.
        self._net = NetworkSelector(slow_task_threshold_secs=0)
        try:
            self._manager = KafkaConnectionManager(self._net, **config)
        except ValueError as error:
            self._net.close()
            raise ConfigurationError(
                f"--bootstrap-servers must be HOST:PORT[,HOST:PORT...], not {bootstrap_servers!r}"
            ) from error
        self._net.start()
        self._has_own_timeout = "request_timeout_ms" in kafka_config

    @property
    def request_timeout_ms(self) -> int:
        """How long kafka-python waits for an answer."""
        return int(self._manager.config["request_timeout_ms"])

    @property
    def short_answer_timeout_ms(self) -> int:
        """How long to wait for what needs no bandwidth; as any answer where that was set."""
        return self.request_timeout_ms if self._has_own_timeout else _SHORT_ANSWER_TIMEOUT_MS

    def run(self, coroutine: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine on the IO thread and wait for it."""
        result: T = self._net.run(coroutine)
        return result

    def begin(self, coroutine: Callable[..., Awaitable[Any]], *arguments: Any) -> Future:
        """Begin a coroutine; the future is awaited within another one."""
        return self._manager.call_soon(coroutine, *arguments)

    def close(self) -> None:
        """Close the connections and end the IO thread."""
        self._net.run(self._manager.close)
        self._net.close()

    async def ask_any(self, request_for: Callable[[], Any]) -> Any:
        """Ask for metadata: some known brokers, then the bootstrap servers, until one answers.

        Brokers that came back at other addresses are found through the bootstrap servers. Known
        ones are asked in any order, since one may be stalled or know less than the others.
        """
        cluster = self._manager.cluster
        brokers = [broker.node_id for broker in cluster.brokers()]
        known = random.sample(brokers, min(len(brokers), _KNOWN_METADATA_NODES))
        bootstrap = [broker.node_id for broker in cluster.bootstrap_brokers()]
        failure = TryAgain("no brokers are known")
        for node_id in known + bootstrap:
            try:
                answer = await self.send(node_id, request_for(), self.short_answer_timeout_ms)
            except TryAgain as error:
                failure = error
                continue
            cluster.update_metadata(answer)
            if node_id in bootstrap:
                self._manager.close(node_id)
            return answer
        raise failure

    async def send(self, node_id: NodeId, request: Any, timeout_ms: int | None = None) -> Any:
        """Send to one broker over its connection, which is made if there is none.

        Raises:
            TryAgain: no connection, no answer, or any refusal once the settings have worked.
            ConfigurationError: the broker refuses us, or our settings cannot make a connection; at
                any time, the broker's version does not fit.
        """
        node = self._manager.cluster.broker_metadata(node_id)
        if node is None:
            raise TryAgain(f"broker {node_id} is not known")
        where = f"broker {node.host}:{node.port}"
        try:
            connection = await self._connection(node_id)
            return await connection.send_request(request, request_timeout_ms=timeout_ms)
        except ConfigurationError as error:
            # No access token.
            raise self._refusal(str(error)) from error
        except kafka_errors.NodeNotReadyError as error:
            raise TryAgain(f"{where}: no connection") from error
        except REFUSED_LOGINS as error:
            if isinstance(self._tokens, EndpointTokens):
                self._tokens.discard()
            raise self._refusal(
                f"{where} refuses the login: {error}; {login_advice(self._mechanism)}"
            ) from error
        except _REFUSED_VERSIONS as error:
            raise ConfigurationError(f"{where} is too old or too new: {error}") from error
        except kafka_errors.KafkaError as error:
            if is_tls_fault(error):
                raise self._refusal(
                    f"no TLS connection to {where}: {error}; {tls_advice(error)}"
                ) from error
            raise TryAgain(f"{where}: {error}") from error
        except Exception as error:
            raise self._refusal(
                f"no connection to {where} with these --kafka settings: {error!r}"
            ) from error

    def _refusal(self, text: str) -> Exception:
        """An error that a person must mend, unless the settings have worked before."""
        may_heal = self._has_worked or self.has_contact
        return TryAgain(text) if may_heal else ConfigurationError(text)

    async def _connection(self, node_id: NodeId) -> Any:
        timeout_ms = None if self.has_contact else _FIRST_CONNECT_TIMEOUT_MS
        # Not the manager's `send`: a failure would start its metadata loop beside our own.
        connection = self._manager.get_connection(
            node_id, timeout_ms=timeout_ms, refresh_metadata_on_err=False
        )
        try:
            await self._manager.wait_for(
                connection.init_future, timeout_ms or self.request_timeout_ms
            )
        except kafka_errors.KafkaTimeoutError as error:
            connection.close(error)
            raise
        # kafka-python makes the parser itself, and asks for no other class.
        connection.parser.__class__ = FrameParser
        # A client quota pauses the connection; sending then would be an error.
        while connection.connected and connection.paused:
            await self._net.sleep(_PAUSE_POLL_S)
        return connection


def _is_no_login(record: logging.LogRecord) -> bool:
    """Logins are requests whose bytes are passwords and tokens."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(argument, _LOGIN_MESSAGES) for argument in arguments)


def _is_no_dump(record: logging.LogRecord) -> bool:
    """At DEBUG every byte is shown, those of logins too."""
    return record.levelno > logging.DEBUG


def _quieten_connection_loggers() -> None:
    """Keep kafka-python from telling every lost connection: what matters is told here.

    Levels that someone has set stay, and so does everything when this module is at DEBUG; but for
    secrets.
    """
    # A filter that is there already is not added again.
    _REQUEST_LOGGER.addFilter(_is_no_login)
    _BYTE_LOGGER.addFilter(_is_no_dump)
    if logger.isEnabledFor(logging.DEBUG):
        return
    for name in _CONNECTION_LOGGERS:
        connection_logger = logging.getLogger(name)
        if connection_logger.level == logging.NOTSET:
            connection_logger.setLevel(logging.CRITICAL + 1)
