"""The server over HTTP, by the rules of `streaming.http.access`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from mcp.server import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.http.access import Access, GuardedApp
from streaming.http.own_names import OwnNames
from streaming.http.server import LimitedBody, serving

PATH: Final = "/mcp"
_MOST_BODY_BYTES: Final = 1 << 20


@contextmanager
def serving_agents(server: Server[Any], access: Access, port: int) -> Iterator[str]:
    """Serve while the block runs, and yield the address; port 0 means any free port.

    Raises:
        ConfigurationError: the address or port cannot be used.
    """
    # Each request stands alone: the server needs no session, because it sends nothing unasked.
    app: ASGIApp = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        # `OwnNames` checks the names that this program accepts everywhere.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    # The body of a request without access is not read.
    app = GuardedApp(_PostsOfAgents(LimitedBody(app, _MOST_BODY_BYTES)), access)
    app = OwnNames(ExceptionMiddleware(app, {HTTPException: _refused}), access.names)
    with serving(app, host=access.host, port=port, most_body_bytes=None) as address:
        yield f"{address.rstrip('/')}{PATH}"


class _PostsOfAgents:
    """An ASGI application that refuses web pages, and streams of messages."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Request(scope).headers
            origin = headers.get("origin")
            # Agents are no web pages.
            if origin is not None and origin.partition("://")[2] != headers.get("host"):
                raise HTTPException(403, "Requests from other sites are refused.")
            if scope["method"] == "GET":
                # A stream of messages that the server sends unasked, which it never does.
                text = "This is a Model Context Protocol server: send POST requests."
                raise HTTPException(405, text, {"Allow": "POST"})
        await self._app(scope, receive, send)


def _refused(_request: Request, error: Any) -> PlainTextResponse:
    return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)
