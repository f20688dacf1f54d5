"""The addresses of the API, and its application: access control, limits and errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import Receive, Scope, Send

from streaming.api.burrow import burrow_views
from streaming.api.openapi import PREFIX, description
from streaming.api.operation import Clusters, Operation
from streaming.api.operations import ADDRESSES
from streaming.api.responses import PROBLEMS, json_response
from streaming.errors import ConfigurationError
from streaming.http.access import Access, guarding
from streaming.http.server import serving
from streaming.served.cluster import Cluster, costly_slots
from streaming.views.sql.slots import Slots

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
    views: dict[str, _View] = {"/openapi.json": partial(_json, json.dumps(description(ADDRESSES)))}
    for path, operation in ADDRESSES.items():
        view = partial(_answered, operation, Clusters(by_name=clusters), slots)
        views[path.replace("}", ":path}")] = view
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


def _answered(operation: Operation, clusters: Clusters, slots: Slots, request: Request) -> Response:
    query = operation.query_of(_arguments(operation, request))
    is_costly = operation.is_costly or query.is_costly
    with slots.taken() if is_costly else nullcontext():
        answer = operation.function(clusters, query)
    return json_response(request, answer.model_dump_json())


def _arguments(operation: Operation, request: Request) -> dict[str, Any]:
    """The arguments in the path and in the query of the address.

    Raises:
        ConfigurationError: one is given twice.
    """
    arguments: dict[str, Any] = {}
    for name in request.query_params:
        values = request.query_params.getlist(name)
        field = operation.query.model_fields.get(name)
        if field is not None and field.default_factory is list:
            arguments[name] = values
        elif len(values) > 1:
            raise ConfigurationError(f"{name}: given {len(values)} times")
        elif name in request.path_params:
            raise ConfigurationError(f"unknown parameter {name}")
        else:
            arguments[name] = values[0]
    return arguments | {name: unquote(value) for name, value in request.path_params.items()}


def _json(text: str, request: Request) -> Response:
    return json_response(request, text)
