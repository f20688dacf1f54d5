"""The request that a page answers, and the addresses of pages and static files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.served.cluster import Cluster
from streaming.tables.as_of import parse_time

STATIC: Final = Path(__file__).with_name("static")
_SAFE: Final = "!$'()*,/:;?@"
"""Characters that need no escape in the query of an address."""
_CURRENT: ContextVar[PageRequest] = ContextVar("request")


class PageRequest(Request):
    """A request of a page, with the cluster and the moment of its address."""

    cluster: Cluster
    """Only addresses below `/c/` have one."""
    at: datetime | None = None
    """None for now."""
    read_at: datetime | None = None
    """When the tables of the page were opened; None for pages without tables."""
    page: str = ""
    """The name of the page."""

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The clusters of the server by name."""
        clusters: Mapping[str, Cluster] = self.app.state.clusters
        return clusters


class _Current:
    def __getattr__(self, name: str) -> Any:
        current = _CURRENT.get(None)
        if current is None:
            raise AttributeError(f"{name}: no request is being answered")
        return getattr(current, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_CURRENT.get(), name, value)


request: Final = cast(PageRequest, _Current())
"""The request that this thread or task answers."""


class NotedRequest:
    """An ASGI application that notes which request it answers, for `request`."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        if scope["type"] == "http":
            _CURRENT.set(PageRequest(scope, receive, send))
        await self._app(scope, receive, send)


def url_for(name: str, /, *, external: bool = False, fragment: str = "", **arguments: Any) -> str:
    """The address of a page, by default one of the same cluster and moment.

    Args:
        name: the name of the page, or `static`.
        external: whether it begins with the scheme and the host.
        fragment: the id of the element to which the address leads.
        arguments: the arguments; None leaves one out, a list has several.
    """
    if name == "static":
        file = arguments["filename"]
        return f"/static/{file}?v={hash_of(file)}"
    known = request.app.state.addresses[name]
    given = getattr(request, "cluster", None)
    cluster = arguments.pop("cluster", given and given.name)
    path = known.replace("{cluster}", quote(cluster or "", safe=_SAFE))
    if known != path and given and cluster == given.name and request.at:
        arguments.setdefault("at", moment_text(request.at))
    begin = str(request.base_url).rstrip("/") if external else ""
    return f"{begin}{path}{_query(arguments, _SAFE)}{fragment and f'#{fragment}'}"


def here(
    name: str | None = None,
    /,
    *,
    fragment: str = "",
    kept: Collection[str] | None = None,
    **other: str | int | Sequence[str] | None,
) -> str:
    """The address of this page with changed arguments; None removes one, a list has several.

    Args:
        name: another page of this cluster, to which the arguments are given.
        fragment: the id of the element to which the address leads.
        kept: the arguments of this page that the address has, too; all if None.
        other: the changed arguments.
    """
    path = quote(request.scope["path"]) if name is None else url_for(name).partition("?")[0]
    arguments = request.query_params
    known = {name: arguments.getlist(name) for name in arguments if kept is None or name in kept}
    return f"{path}{_query(known | other) or '?'}{fragment and f'#{fragment}'}"


def _query(arguments: Mapping[str, Any], safe: str = "") -> str:
    given = {name: value for name, value in arguments.items() if value is not None}
    return f"?{urlencode(given, doseq=True, safe=safe)}" if given else ""


def moment_of(argument: str) -> datetime | None:
    """The moment of an argument; None if the argument is empty or absent.

    Raises:
        ConfigurationError: the argument is not a time.
    """
    text = request.query_params.get(argument, "")
    return parse_time(text) if text else None


def moment_text(at: datetime, timespec: str = "auto") -> str:
    """A moment in UTC for an address, with a Z: a plus sign would be a space there."""
    return at.isoformat(timespec=timespec).replace("+00:00", "Z")


@cache
def hash_of(file: str) -> str:
    """The hash of a static file, which its address has: browsers keep the file for good."""
    return sha256((STATIC / file).read_bytes()).hexdigest()[:16]
