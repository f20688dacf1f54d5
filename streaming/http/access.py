"""Access to the tables over HTTP: open on this machine, guarded elsewhere.

A server answers only to its own host names, see `streaming.http.own_names`. If it listens on
another address than 127.0.0.1, it asks for a token, or trusts the header of a reverse proxy.
"""

from __future__ import annotations

import hmac
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, NamedTuple, TypeAlias

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.errors import ConfigurationError
from streaming.http.own_names import HostNames, OwnNames, is_loopback

SHORTEST_TOKEN: Final = 16
HOST_ADVICE: Final = "Use localhost, an IP address, or a name set with --allowed-host."
_PROXY_ADVICE: Final = "Use the address of the reverse proxy: this request lacks its header."
_COOKIE: Final = "session"
_SESSION_DAYS: Final = 31
_SECURITY_HEADERS: Final = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


class Rules(NamedTuple):
    """Exceptions of a route.

    Attributes:
        may_be_linked: whether pages of other sites may link to its address.
        is_open: whether its address needs no token.
    """

    may_be_linked: bool = False
    is_open: bool = False


GuardedRoute: TypeAlias = tuple[BaseRoute, Rules]


@dataclass(frozen=True, slots=True)
class Access:
    """The conditions for access to a server.

    Args:
        host: the address to listen on.
        token: entered once per browser, or sent with each request: as a bearer token, or as the
            password of HTTP Basic, with any user name.
        auth_header: a header that a reverse proxy adds to each authenticated request.
        allowed_hosts: host names to accept besides localhost, `host` and IP addresses.

    Raises:
        ConfigurationError: the server would be open to other machines without a token or a proxy,
            the token is short enough to guess, or a name is not a host name.
    """

    host: str
    token: str | None = None
    auth_header: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    names: HostNames = field(init=False)

    def __post_init__(self) -> None:
        if any(given is not None and not given.strip() for given in (self.token, self.auth_header)):
            raise ConfigurationError("the token or the header name is empty")
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the token has {len(self.token)} characters and needs at least {SHORTEST_TOKEN}; "
                "`openssl rand -hex 16` generates one"
            )
        if self.token is None and self.auth_header is None and not is_loopback(self.host):
            raise ConfigurationError(
                f"on {self.host} other machines could read the tables: set a token "
                "(COORDINATOR_STATE_TOKEN, or token in the config file), or --auth-header for a "
                "reverse proxy that authenticates users"
            )
        names = HostNames((self.host, *self.allowed_hosts), advice=HOST_ADVICE)
        object.__setattr__(self, "names", names)

    def require(self, request: HTTPConnection, rules: Rules) -> None:
        """Refuse a request without access.

        Raises:
            HTTPException: 403 or 401, and why.
        """
        headers = request.headers
        if _is_from_another_site(request, may_be_linked=rules.may_be_linked):
            raise HTTPException(403, "Requests from other sites are refused.")
        if self.auth_header is not None and not headers.get(self.auth_header):
            raise HTTPException(403, _PROXY_ADVICE)
        if self.token is None or rules.is_open or self._is_signed_in(request):
            return
        if not self._has_token(headers.get("Authorization", "")):
            raise HTTPException(
                401,
                "The token is missing or wrong: send it as a bearer token.",
                {"WWW-Authenticate": 'Bearer realm="coordinator-state"'},
            )

    def sign_in(self, request: HTTPConnection, token: str, response: Response) -> bool:
        """Remember in the visitor's browser that the token is correct; False if it is not."""
        if not self._is_token(token):
            return False
        # The browser sends the cookie over TLS only, if it has reached a proxy with TLS.
        is_secure = "https" in {request.url.scheme, request.headers.get("X-Forwarded-Proto")}
        response.set_cookie(
            _COOKIE, self._session(_today()), httponly=True, samesite="lax", secure=is_secure
        )
        return True

    def _session(self, day: int) -> str:
        """What the cookie of a visitor holds from a day on. A new token ends every session."""
        digest = hmac.new((self.token or "").encode(), f"session {day}".encode(), sha256)
        return f"{day}.{digest.hexdigest()}"

    def _is_signed_in(self, request: HTTPConnection) -> bool:
        given = request.cookies.get(_COOKIE, "")
        day, _, _ = given.partition(".")
        if not (day.isascii() and day.isdigit() and 0 <= _today() - int(day) <= _SESSION_DAYS):
            return False
        return hmac.compare_digest(given.encode(), self._session(int(day)).encode())

    def _has_token(self, authorization: str) -> bool:
        """Whether the header `Authorization` has the token."""
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "basic":
            with suppress(ValueError):
                _, _, password = b64decode(given).decode().partition(":")
                return self._is_token(password)
        return scheme.lower() == "bearer" and self._is_token(given)

    def _is_token(self, given: str) -> bool:
        """Whether this is the token.

        Wrong tokens are not limited: whoever reaches the limit would lock out the right token.
        """
        # Digests have one length, so the time of a comparison does not reveal the token's length.
        digests = (sha256(text.encode()).digest() for text in (given, self.token or ""))
        return hmac.compare_digest(*digests)


class GuardedApp:
    """An ASGI application that refuses requests without access, also to addresses without a route.

    Args:
        app: the application.
        access: the conditions for access.
        routes: the routes with exceptions.
    """

    def __init__(self, app: ASGIApp, access: Access, routes: Sequence[GuardedRoute] = ()) -> None:
        self._app, self._access, self._routes = app, access, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request.

        Raises:
            HTTPException: the request has no access.
        """
        if scope["type"] == "http":
            matching = (
                rules for route, rules in self._routes if route.matches(scope)[0] is not Match.NONE
            )
            self._access.require(HTTPConnection(scope), next(matching, Rules()))
        await self._app(scope, receive, send)


class _SecurityHeaders:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self._app(scope, receive, send_with_headers)


def guarding(
    access: Access,
    routes: Sequence[GuardedRoute],
    errors: Mapping[Any, Any],
    *others: Middleware,
) -> list[Middleware]:
    """The middleware that guards an application, outermost first.

    Args:
        access: the conditions for access.
        routes: its routes with exceptions.
        errors: the handlers of exceptions, those of the access control included.
        others: further middleware, outside of the handlers of exceptions.
    """
    return [
        Middleware(OwnNames, names=access.names),
        Middleware(_SecurityHeaders),
        *others,
        Middleware(ExceptionMiddleware, handlers=errors),
        Middleware(GuardedApp, access=access, routes=routes),
    ]


def _today() -> int:
    """The days since the epoch."""
    return int(time.time() // 86_400)


def _is_from_another_site(request: HTTPConnection, *, may_be_linked: bool) -> bool:
    """Whether a page of another site makes the visitor's browser send this request.

    A link that the visitor follows is allowed. An image, a frame, a script or a form is refused:
    pages are costly to compute, and a site could request many. Browsers name the requesting site in
    `Sec-Fetch-Site`; other programs do not send it. A site on another port of this machine is
    `same-site`.
    """
    headers = request.headers
    site = headers.get("Sec-Fetch-Site", "none")
    if site in {"none", "same-origin"}:
        return False
    is_link = (
        request.scope["method"] == "GET"
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest") == "document"
    )
    return not is_link or (site == "cross-site" and not may_be_linked)
