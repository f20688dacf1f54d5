"""The addresses of the API, and its application: access control, limits and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from streaming.api import alerts, events, groups, scaling, status, topics, transactions
from streaming.api.burrow import burrow_views
from streaming.api.endpoints import Clusters, Endpoint, json_response, query_of
from streaming.api.openapi import PREFIX, description
from streaming.api.problems import PROBLEMS
from streaming.http.access import Access, guarding
from streaming.http.server import serving
from streaming.served.cluster import Cluster, costly_slots
from streaming.views.sql.slots import Slots

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *status.ENDPOINTS,
    *groups.ENDPOINTS,
    *scaling.ENDPOINTS,
    *topics.ENDPOINTS,
    *transactions.ENDPOINTS,
    *events.ENDPOINTS,
    *alerts.ENDPOINTS,
)
PREFIXES: Final = (PREFIX, "/v3")
"""Burrow's addresses are below `/v3`; some of them do not exist here."""
_View: TypeAlias = Callable[[Request], Response]


def create_app(
    clusters: Mapping[str, Cluster], *, access: Access | None = None, slots: Slots | None = None
) -> Starlette:
    """The ASGI application of the API.

    Args:
        clusters: the clusters by name.
        access: the access control; None allows only this machine.
        slots: the slots for costly answers.
    """
    return Starlette(
        routes=api_routes(clusters, slots or costly_slots()),
        middleware=guarding(access or Access("127.0.0.1"), (), PROBLEMS),
        exception_handlers={HTTPException: PROBLEMS[HTTPException]},
    )


def api_routes(clusters: Mapping[str, Cluster], slots: Slots) -> list[Mount]:
    """The routes of the API and of Burrow's API, below `PREFIXES`."""
    views: dict[str, _View] = {"/openapi.json": partial(_json, json.dumps(description(ENDPOINTS)))}
    for endpoint in ENDPOINTS:
        path = endpoint.path.replace("}", ":path}")
        views[path] = partial(_answered, endpoint, Clusters(clusters), slots)
    return [
        Mount(prefix, _NamesRouter(views))
        for prefix, views in zip(PREFIXES, (views, burrow_views(clusters)), strict=True)
    ]


class _NamesRouter(Router):
    """Routes the path as it was sent: there, a slash in a name is `%2F`.

    A name may have slashes as they are, too, unless the rest of the path then has a route.
    """

    def __init__(self, views: Mapping[str, _View]) -> None:
        # The first route that matches answers, and `/groups/{group}` matches `/groups/g/lag`, too.
        paths = sorted(views, key=lambda path: path.endswith("}"))
        super().__init__([Route(path, views[path]) for path in paths], redirect_slashes=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = {**scope, "path": scope["raw_path"].decode("ascii", "replace")}
        await super().__call__(scope, receive, send)


@contextmanager
def serving_api(
    clusters: Mapping[str, str], *, access: Access | None = None, port: int = 0
) -> Iterator[str]:
    """Serve the API alone while the block runs, and yield its address.

    Args:
        clusters: tables folders by the name of the cluster.
        access: the access control; None allows only this machine.
        port: the port to listen on; 0 for any free port.

    Raises:
        ConfigurationError: the address or port cannot be used.
    """
    access = access or Access("127.0.0.1")
    known = {name: Cluster(name, tables) for name, tables in clusters.items()}
    with serving(create_app(known, access=access), host=access.host, port=port) as address:
        yield address


def is_of_api(path: str) -> bool:
    """Whether a path is below one of `PREFIXES`."""
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in PREFIXES)


def _answered(endpoint: Endpoint, clusters: Clusters, slots: Slots, request: Request) -> Response:
    query = query_of(request.query_params, endpoint.query)
    names = {name: unquote(value) for name, value in request.path_params.items()}
    is_costly = endpoint.is_costly or query.is_costly
    with slots.taken() if is_costly else nullcontext():
        answer = endpoint.view(clusters, query, **names)
    return json_response(request, answer.model_dump_json())


def _json(text: str, request: Request) -> Response:
    return json_response(request, text)
