"""The application of the API: its addresses, access control and limits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

from flask import Flask, Response
from werkzeug.routing import PathConverter

from streaming.api import alerts, events, groups, scaling, status, topics, transactions
from streaming.api.burrow import add_burrow
from streaming.api.endpoints import Clusters, Endpoint, json_response, query_of
from streaming.api.kept_slashes import KeptSlashes, with_slashes
from streaming.api.openapi import PREFIX, description
from streaming.api.problems import handle_errors
from streaming.http.access import Access
from streaming.http.server import serving
from streaming.served.cluster import Cluster
from streaming.served.costly import costly_slots
from streaming.views.sql.slots import Slots

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ENDPOINTS: Final[tuple[Endpoint, ...]] = (
    *status.ENDPOINTS,
    *groups.ENDPOINTS,
    *scaling.ENDPOINTS,
    *topics.ENDPOINTS,
    *transactions.ENDPOINTS,
    *events.ENDPOINTS,
    *alerts.ENDPOINTS,
)
_PREFIXES: Final = (PREFIX, "/v3")
"""Burrow's addresses are below `/v3`; some of them do not exist here."""


def create_app(
    clusters: Mapping[str, Cluster], *, access: Access | None = None, slots: Slots | None = None
) -> Flask:
    """The WSGI application of the API.

    Args:
        clusters: the clusters by name.
        access: the access control; None allows only this machine.
        slots: the slots for costly answers.
    """
    app = Flask(__name__, static_folder=None)
    app.url_map.converters["name"] = _Name
    (access or Access("127.0.0.1")).guard(app)
    handle_errors(app)
    slots = slots or costly_slots()
    of_server = Clusters(clusters)
    for endpoint in ENDPOINTS:
        path = re.sub(r"{(\w+)}", r"<name:\1>", endpoint.path)
        view = partial(_answered, endpoint, of_server, slots)
        app.add_url_rule(f"{PREFIX}{path}", endpoint.name, view, merge_slashes=False)
    text = json.dumps(description(ENDPOINTS))
    app.add_url_rule(f"{PREFIX}/openapi.json", "openapi", partial(json_response, text))
    add_burrow(app, clusters)
    app.wsgi_app = KeptSlashes(app.wsgi_app)  # type: ignore[method-assign]
    return app


class _Name(PathConverter):
    """A group id or topic in a path: any text, also with slashes."""

    regex = ".+?"
    part_isolating = False

    def to_python(self, value: str) -> str:
        return with_slashes(value)


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


def beside(page: WSGIApplication, api: WSGIApplication) -> WSGIApplication:
    """An application that answers the addresses of the API by `api`, and all others by `page`."""

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        is_api = any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PREFIXES)
        return (api if is_api else page)(environ, start_response)

    return application


def _answered(endpoint: Endpoint, clusters: Clusters, slots: Slots, **path: str) -> Response:
    query = query_of(endpoint.query)
    is_costly = endpoint.is_costly or query.is_costly
    with slots.taken() if is_costly else nullcontext():
        answer = endpoint.view(clusters, query, **path)
    return json_response(answer.model_dump_json())
