"""The names that an HTTP endpoint answers to, so that no site reads it through a visitor's browser.

A site can let its own name lead to an address of this machine (DNS rebinding). To the browser the
answers are the site's own, so its scripts may read them; `Host` has the site's name. So an endpoint
answers to localhost and to names that its operator gave it. It answers to every IP address, too: a
browser that has one in `Host` connects to that address, whatever any name leads to. Probes of
Kubernetes, and Prometheus, come with the address of a pod.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from streaming.errors import ConfigurationError
from streaming.views.text import printable

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_LOOPBACK_NAME = "localhost"


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine only.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == _LOOPBACK_NAME


class OwnNames:
    """A WSGI application that answers to some names only.

    Args:
        app: the application.
        names: besides localhost and IP addresses.
        advice: how to reach it, for who used another name.

    Raises:
        ConfigurationError: one of them is no name of a host.
    """

    def __init__(
        self,
        app: WSGIApplication,
        names: Collection[str] = (),
        *,
        advice: str = "Use localhost or an IP address.",
    ) -> None:
        for name in names:
            if not _is_address(name) and (not name or _host(name) != name.lower()):
                raise ConfigurationError(
                    f"{name!r} is no name of a host: give it without scheme and port"
                )
        self._app, self._advice = app, advice
        self._names = {_LOOPBACK_NAME, *(name.lower() for name in names)}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer, or refuse with 403."""
        given = environ.get("HTTP_HOST")
        # A browser always says whom it asks.
        if given is None or _is_address(host := _host(given)) or host in self._names:
            return self._app(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
        return [f"This does not answer to {printable(given[:200])}. {self._advice}\n".encode()]


def on_loopback(app: WSGIApplication, host: str) -> WSGIApplication:
    """The application with the check where it listens on this machine only.

    One that listens elsewhere is open to all who reach it, as its operator wants it, and Prometheus
    asks it by names of services.
    """
    return OwnNames(app) if is_loopback(host) else app


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _host(given: str) -> str:
    """The name or address in `Host`; empty where there is none."""
    try:
        return urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return ""
