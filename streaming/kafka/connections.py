"""Connections to a cluster's brokers, on kafka-python's connection layer.

kafka-python provides TLS, SASL, proxies and protocol versions. Its metadata loop and its retries
are not used: here a request goes to one broker, and fails with either a transient failure
(`TransientFailure`) or an error that a person must correct (`ConfigurationError`).

Settings that have worked once are not wrong. From then on a refused login, a refusing token
endpoint, a TLS failure or an unexpected error of kafka-python is a transient failure, like an
unreachable broker.
"""

from __future__ import annotations

import logging
import random
import re
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
from streaming.kafka.secrets import require_no_login
from streaming.kafka.sockets import DIRECT, FrameParser, tls_context

logger = logging.getLogger(__name__)

T = TypeVar("T")

NodeId = int | str

# The largest accepted frame. A response holds at least one batch, even one above the fetch limits
# (KIP-74), so this is well above those limits. It is below 0x15030300: a TLS alert in answer to
# plain text is read as a frame of that length.
RECEIVE_MESSAGE_MAX_BYTES: Final = 256 << 20

_RECONNECT_BACKOFF_MAX_MS: Final = 1_000
_FIRST_CONNECT_TIMEOUT_MS: Final = 5_000
_PAUSE_POLL_S: Final = 0.02
# For answers that a broker has in memory. A slower broker is stalled, and may no longer be leader.
_SHORT_ANSWER_TIMEOUT_MS: Final = 10_000
# The number of known brokers that are asked for metadata before the bootstrap servers.
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
_REFUSED_LOGINS: Final = (
    kafka_errors.IllegalSaslStateError,
    kafka_errors.SaslAuthenticationFailedError,
    kafka_errors.UnsupportedSaslMechanismError,
)
# Error texts of OpenSSL, including the alerts that it receives (RFC 8446, section 6.2).
_TLS_FAULT: Final = re.compile(r"Handshake failed|\[SSL: \w*ALERT|\[SSL: TLSV")
_TLS_ADVICE: Final = (
    (
        r"Hostname mismatch|IP address mismatch",
        "the broker's certificate is for other names: use a name of the certificate in "
        "--bootstrap-servers and in the broker's advertised.listeners",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the broker's certificate is not trusted: --kafka ssl.cafile must be the PEM file of the "
        "authority that signed it",
    ),
    (
        "CERTIFICATE_REQUIRED|BAD_CERTIFICATE|CERTIFICATE_UNKNOWN|UNKNOWN_CA",
        "the broker requires a trusted client certificate: set --kafka ssl.certfile and "
        "ssl.keyfile",
    ),
)
_ANY_ADVICE: Final = "check --kafka security.protocol and the ssl.* settings"


class TransientFailure(Exception):
    """A transient failure: a retry with fresh metadata may succeed; the text says what failed."""


class BrokerConnections:
    """Sends requests to brokers, on an IO thread of kafka-python.

    `run` blocks its caller; coroutines run on the IO thread. The first request connects.

    Args:
        bootstrap_servers: HOST:PORT, several separated by commas.
        kafka_config: keyword arguments for kafka-python, see `kafka_client_config`.
        has_worked: whether these settings have already worked, for instance in another process.

    Attributes:
        bootstrap_servers: HOST:PORT, several separated by commas.
        has_worked: whether these settings have worked, here or elsewhere.
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
        self.has_worked = has_worked
        self._has_contact = False
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
        # Decoding a large response takes longer than kafka-python's threshold for a slow task.
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
        """The timeout of kafka-python for an answer, in milliseconds."""
        return int(self._manager.config["request_timeout_ms"])

    @property
    def short_answer_timeout_ms(self) -> int:
        """The timeout for a small answer; the user's `request.timeout.ms` if it is set."""
        return self.request_timeout_ms if self._has_own_timeout else _SHORT_ANSWER_TIMEOUT_MS

    def note_contact(self) -> None:
        """Record that a broker has answered a request: connecting may take longer from now on."""
        self.has_worked = self._has_contact = True

    def run(self, coroutine: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine on the IO thread and return its result."""
        result: T = self._net.run(coroutine)
        return result

    def begin(self, coroutine: Callable[..., Awaitable[Any]], *arguments: Any) -> Future:
        """Start a coroutine; the caller, another coroutine, awaits the returned future."""
        return self._manager.call_soon(coroutine, *arguments)

    def close(self) -> None:
        """Close the connections and end the IO thread."""
        self._net.run(self._manager.close)
        self._net.close()

    async def ask_any(self, request_for: Callable[[], Any]) -> Any:
        """Request metadata from some known brokers, then the bootstrap servers, until one answers.

        The bootstrap servers find brokers that restarted at other addresses. The known brokers are
        asked in random order, since one may be stalled or have older metadata than the others.
        """
        cluster = self._manager.cluster
        brokers = [broker.node_id for broker in cluster.brokers()]
        known = random.sample(brokers, min(len(brokers), _KNOWN_METADATA_NODES))
        bootstrap = [broker.node_id for broker in cluster.bootstrap_brokers()]
        failure = TransientFailure("no known brokers")
        for node_id in known + bootstrap:
            try:
                answer = await self.send(node_id, request_for(), self.short_answer_timeout_ms)
            except TransientFailure as error:
                failure = error
                continue
            cluster.update_metadata(answer)
            if node_id in bootstrap:
                self._manager.close(node_id)
            return answer
        raise failure

    async def send(self, node_id: NodeId, request: Any, timeout_ms: int | None = None) -> Any:
        """Send a request to one broker; connect first if there is no connection.

        Raises:
            TransientFailure: no connection, no answer, or a refusal after the settings have worked.
            ConfigurationError: the broker refuses this client, or the settings cannot make a
                connection. Also, at any time, an unsupported broker version.
        """
        node = self._manager.cluster.broker_metadata(node_id)
        if node is None:
            raise TransientFailure(f"unknown broker {node_id}")
        where = f"broker {node.host}:{node.port}"
        try:
            connection = await self._connection(node_id)
            return await connection.send_request(request, request_timeout_ms=timeout_ms)
        except ConfigurationError as error:
            # The access token cannot be obtained.
            raise self._refusal(str(error)) from error
        except kafka_errors.NodeNotReadyError as error:
            raise TransientFailure(f"{where}: no connection") from error
        except _REFUSED_LOGINS as error:
            if isinstance(self._tokens, EndpointTokens):
                self._tokens.discard()
            raise self._refusal(
                f"{where} refuses the login: {error}; {_login_advice(self._mechanism)}"
            ) from error
        except _REFUSED_VERSIONS as error:
            raise ConfigurationError(f"{where} has an unsupported version: {error}") from error
        except kafka_errors.KafkaError as error:
            if _is_tls_fault(error):
                raise self._refusal(
                    f"no TLS connection to {where}: {error}; {_tls_advice(error)}"
                ) from error
            raise TransientFailure(f"{where}: {error}") from error
        except Exception as error:
            raise self._refusal(
                f"no connection to {where} with these --kafka settings: {error!r}"
            ) from error

    def _refusal(self, text: str) -> Exception:
        """Return a transient failure if the settings have worked before, else a permanent error."""
        return TransientFailure(text) if self.has_worked else ConfigurationError(text)

    async def _connection(self, node_id: NodeId) -> Any:
        timeout_ms = None if self._has_contact else _FIRST_CONNECT_TIMEOUT_MS
        # Not the manager's `send`: after a failure it would start kafka-python's metadata loop.
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
        if not isinstance(connection.parser, FrameParser):
            # kafka-python creates the parser itself and has no setting for another class.
            connection.parser = FrameParser(connection.parser)
        # A client quota pauses the connection, and sending on a paused connection fails.
        while connection.connected and connection.paused:
            await self._net.sleep(_PAUSE_POLL_S)
        return connection


def _is_no_login(record: logging.LogRecord) -> bool:
    """Filter out login requests and responses: they contain passwords and tokens."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(argument, _LOGIN_MESSAGES) for argument in arguments)


def _is_no_dump(record: logging.LogRecord) -> bool:
    """Filter out DEBUG records: they show every byte, including those of logins."""
    return record.levelno > logging.DEBUG


def _quieten_connection_loggers() -> None:
    """Silence kafka-python's log of each lost connection; this package logs failures itself.

    Levels that a user has set stay. With this module at DEBUG all levels stay, and only records
    with secrets are filtered.
    """
    # `addFilter` ignores a filter that is already there.
    _REQUEST_LOGGER.addFilter(_is_no_login)
    _BYTE_LOGGER.addFilter(_is_no_dump)
    if logger.isEnabledFor(logging.DEBUG):
        return
    for name in _CONNECTION_LOGGERS:
        connection_logger = logging.getLogger(name)
        if connection_logger.level == logging.NOTSET:
            connection_logger.setLevel(logging.CRITICAL + 1)


def _is_tls_fault(error: Exception) -> bool:
    """Return whether a connection failed in TLS."""
    return _TLS_FAULT.search(str(error)) is not None


def _tls_advice(error: Exception) -> str:
    """Return advice for a TLS failure."""
    for fault, advice in _TLS_ADVICE:
        if re.search(fault, str(error)):
            return advice
    return _ANY_ADVICE


def _login_advice(mechanism: str) -> str:
    """Return advice for a refused login."""
    if mechanism == "OAUTHBEARER":
        return (
            "the broker rejects the token of --kafka sasl.oauthbearer.token.endpoint.url: "
            "check its audience, its scope and when it expires"
        )
    return "check --kafka security.protocol, sasl.mechanism, sasl.plain.username and its password"
