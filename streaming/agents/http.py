"""The server over HTTP, by the rules of `streaming.http.access_rules`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias

import uvicorn
from mcp.server import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from uvicorn.protocols.http.h11_impl import H11Protocol

from streaming.http.access_rules import PROXY_ADVICE, AccessRules
from streaming.http.server import address_of, listening_socket

PATH: Final = "/mcp"
_MOST_BODY_BYTES: Final = 1 << 20
_CONNECTIONS: Final = 512
_REQUEST_S: Final = 10.0
"""For the headers of a request to arrive, and for its body."""
_UNREAD_S: Final = 10.0
"""For a client to go on with reading its answer."""
_SHUTDOWN_S: Final = 2
_JOIN_S: Final = 10.0

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]


@contextmanager
def serving_agents(server: MCPServer[Any], access: AccessRules, port: int) -> Iterator[str]:
    """Serve while the block runs, and yield the address; port 0 means any free port.

    Raises:
        ConfigurationError: the address or port cannot be used.
    """
    # Each request stands alone: the server needs no session, because it sends nothing unasked.
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        # `GuardedApp` checks the names that this program accepts everywhere.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    listening = listening_socket(access.host, port)
    config = uvicorn.Config(
        GuardedApp(app, access),
        log_config=None,
        access_log=False,
        server_header=False,
        # A client that could choose its address would evade the limit on wrong tokens.
        proxy_headers=False,
        ws="none",
        http=_Connection,
        timeout_graceful_shutdown=_SHUTDOWN_S,
    )
    http = uvicorn.Server(config)
    # In a thread of its own it leaves the signals to the command.
    thread = threading.Thread(target=http.run, args=([listening],), name="agents", daemon=True)
    thread.start()
    try:
        yield f"{address_of(listening, access.host).rstrip('/')}{PATH}"
    finally:
        http.should_exit = True
        thread.join(_JOIN_S)
        listening.close()


class _Connection(H11Protocol):
    """A connection, which is closed if a request or the reading of its answer takes too long.

    With too many connections, the one whose client is the slowest is closed.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_request()
        if len(self.connections) > _CONNECTIONS:
            # The new connection waits for its request, too.
            waiting = {
                other: other._deadline.when()
                for other in self.connections
                if isinstance(other, _Connection) and other._deadline is not None
            }
            min(waiting, key=waiting.__getitem__).transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        if self._is_answering and not self.flow.write_paused:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        if not self.flow.write_paused:
            self._wait_for_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._is_answering:
            self._stop_waiting()
        else:
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait_for_request(self) -> None:
        self._wait(_REQUEST_S)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _wait_for_reading(self) -> None:
        self._stop_waiting()
        unread_bytes = self.transport.get_write_buffer_size()
        self._deadline = self.loop.call_later(_UNREAD_S, self._require_reading, unread_bytes)

    def _require_reading(self, unread_bytes: int) -> None:
        if self.transport.get_write_buffer_size() < unread_bytes:
            self._wait_for_reading()
        else:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Refusal(NamedTuple):
    """The status and the text of a refused request."""

    status: int
    text: str
    headers: tuple[tuple[bytes, bytes], ...] = ()


class GuardedApp:
    """An ASGI application that answers only requests with access."""

    def __init__(self, app: App, access: AccessRules) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is None:
            try:
                body = await asyncio.wait_for(_read_body(receive), _REQUEST_S)
            except asyncio.TimeoutError:
                refusal = _Refusal(408, f"The request did not arrive within {_REQUEST_S:g} s.")
            else:
                if body is not None:
                    await self._app(scope, _received_again(body, receive), send)
                    return
                refusal = _Refusal(413, f"A request has at most {_MOST_BODY_BYTES} bytes.")
        text = ("content-type", "text/plain; charset=utf-8")
        headers = [tuple(part.encode() for part in text), *refusal.headers]
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": f"{refusal.text}\n".encode()})

    def _refusal(self, scope: Message) -> _Refusal | None:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        host = self._access.names.refusal(headers.get("host"))
        if host is not None:
            return _Refusal(403, host)
        if _is_from_another_site(headers):
            return _Refusal(403, "Requests from other sites are refused.")
        if scope["method"] == "GET":
            # A stream of messages that the server sends unasked, which it never does.
            text = "This is a Model Context Protocol server: send POST requests."
            return _Refusal(405, text, ((b"allow", b"POST"),))
        proxy_header = self._access.auth_header
        if proxy_header is not None and not headers.get(proxy_header.lower()):
            return _Refusal(403, PROXY_ADVICE)
        authorization = headers.get("authorization", "")
        if self._access.token is None or self._access.has_token(authorization):
            return None
        bearer = ((b"www-authenticate", b"Bearer"),)
        return _Refusal(401, "The token is missing or wrong: send it as a bearer token.", bearer)


async def _read_body(receive: Receive) -> bytes | None:
    """The body of a request; None if it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _MOST_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _received_again(body: bytes, receive: Receive) -> Receive:
    """What an application receives of a request whose body was read before."""
    messages = [{"type": "http.request", "body": body}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


def _is_from_another_site(headers: Mapping[str, str]) -> bool:
    """Whether a web page makes a browser send this request: agents are no web pages."""
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host"):
        return True
    return headers.get("sec-fetch-site", "none") not in {"none", "same-origin"}
