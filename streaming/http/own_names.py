"""Protection of an HTTP endpoint against DNS rebinding: it checks the `Host` header.

A website can resolve its own name to an address of this machine (DNS rebinding). Its scripts in a
visitor's browser may then read the answers of the endpoint. `Host` has the website's name in such
requests. An endpoint therefore answers only if `Host` is one of these:

- localhost
- a name that the operator allowed
- any IP address: the browser then connects to that address without DNS. Probes of Kubernetes, and
  Prometheus, use the address of a pod. Starlette's `TrustedHostMiddleware` has no pattern for it.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.errors import ConfigurationError
from streaming.views.text import printable

_LOOPBACK_NAME = "localhost"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == _LOOPBACK_NAME


class HostNames:
    """The allowed names in `Host`.

    Args:
        names: the allowed names besides localhost and IP addresses.
        advice: the text after a refusal: how to reach the endpoint.

    Raises:
        ConfigurationError: a name is not a host name.
    """

    def __init__(
        self, names: Collection[str] = (), *, advice: str = "Use localhost or an IP address."
    ) -> None:
        for name in names:
            if not _is_address(name) and (not name or _host(name) != name.lower()):
                raise ConfigurationError(
                    f"{name!r} is not a host name: give it without scheme and port"
                )
        self._advice = advice
        self._names = {_LOOPBACK_NAME, *(name.lower() for name in names)}

    def refusal(self, given: str | None) -> str | None:
        """Why a request with this `Host` is refused; None if it is allowed."""
        # A browser always sends `Host`.
        if given is None or _is_address(host := _host(given)) or host in self._names:
            return None
        return f"Host {printable(given[:200])} is not allowed. {self._advice}"


class OwnNames:
    """An ASGI application that answers only to allowed names in `Host`."""

    def __init__(self, app: ASGIApp, names: HostNames) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request, or refuse it with 403."""
        app, refusal = self._app, None
        if scope["type"] == "http":
            refusal = self._names.refusal(Headers(scope=scope).get("host"))
        if refusal is not None:
            app = PlainTextResponse(f"{refusal}\n", 403)
        await app(scope, receive, send)


def on_loopback(app: ASGIApp, host: str) -> ASGIApp:
    """The application, with the check of `Host` if it listens on a loopback address.

    On another address the operator has opened the endpoint to the network, and Prometheus reaches
    it by names of services.
    """
    return OwnNames(app, HostNames()) if is_loopback(host) else app


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _host(given: str) -> str:
    """The name or address in `Host`; empty if there is none."""
    try:
        return urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return ""
