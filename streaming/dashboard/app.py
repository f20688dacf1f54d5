"""The application of the page and the API.

A page shows one cluster, as of now or as of the moment `at` in its address. The address also holds
the sort order and the filters, so that users can share a view.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from streaming.api.app import api_routes, is_of_api
from streaming.api.responses import http_error, problem
from streaming.dashboard import (
    changes,
    charts,
    compare,
    group,
    group_alert,
    group_plan,
    health,
    overview,
    queries,
    several_clusters,
    sparklines,
    story,
    styleguide,
    timeline,
    topic,
    topics,
)
from streaming.dashboard.queries import sql_processes
from streaming.dashboard.rendered import HashedFiles, Page, render_template
from streaming.dashboard.request import STATIC, NotedRequest, moment_of, request, url_for
from streaming.errors import ConfigurationError
from streaming.http.access import Access, GuardedRoute, Rules, guarding
from streaming.http.compression import Compression
from streaming.http.server import serving
from streaming.served.cluster import Cluster, costly_slots
from streaming.views.sql.slots import Slots

DEFAULT_REFRESH_S: Final = 5.0
_MODULES: Final = (
    *(overview, sparklines, compare, group, story, charts, timeline, group_alert, group_plan),
    *(topics, topic, changes, queries, health),
)
PAGES: Final[tuple[Page, ...]] = tuple(page for module in _MODULES for page in module.PAGES)
_OWN_PAGE: Final = re.compile(r"/c/[!-\[\]-~]*")
"""Printable ASCII without the backslash, which browsers treat as a slash."""
_TAG: Final = re.compile(r'(?:W/)?"(\d{1,12}\.\d+)"')
"""The ETag of a page: when its tables were read, in seconds since the epoch."""
_NO_TEXT: Final = {
    404: "The address was not found on this server.",
    405: "The address does not take requests of this method.",
}


def create_app(
    clusters: Mapping[str, str],
    *,
    access: Access | None = None,
    refresh_s: float = DEFAULT_REFRESH_S,
) -> Starlette:
    """The ASGI application of the page and the API.

    Args:
        clusters: tables folders by the name of the cluster.
        access: the access control; None allows only this machine.
        refresh_s: seconds between two refreshes of a page that shows the current state.
    """
    access = access or Access("127.0.0.1")
    known = {name: Cluster(name, tables) for name, tables in clusters.items()}
    slots = costly_slots()
    login = partial(_login, access)
    guarded: list[GuardedRoute] = [
        (Route("/", _index, name="index"), Rules(may_be_linked=True)),
        (Route("/styleguide", _styleguide, name="styleguide"), Rules(may_be_linked=True)),
        (Route("/login", login, methods=["GET", "POST"], name="login"), Rules(is_open=True)),
        (Mount("/static", HashedFiles(directory=STATIC)), Rules(is_open=True)),
    ]
    for page in PAGES:
        view = partial(_answered, page, slots)
        route = Route(f"/c/{{cluster}}/{page.address}", view, name=page.name)
        guarded.append((route, Rules(may_be_linked=page.may_be_linked)))
    # Starlette adds the slash, as in links that people write.
    without_slash = Route("/c/{cluster}", _index), Rules(may_be_linked=True)
    routes = [route for route, _ in guarded]
    errors: Mapping[Any, Any] = {HTTPException: _failed, Exception: _failed}
    app = Starlette(
        routes=[*api_routes(known, slots), *routes],
        middleware=guarding(
            access,
            [*guarded, without_slash],
            errors,
            Middleware(Compression),
            Middleware(NotedRequest),
        ),
        exception_handlers={HTTPException: _failed},
    )
    app.state.addresses = {route.name: route.path for route in routes if isinstance(route, Route)}
    app.state.clusters = known
    app.state.refresh_s = refresh_s
    app.state.sql_processes = sql_processes(clusters.values())
    return app


@contextmanager
def serving_page(
    clusters: Mapping[str, str],
    *,
    access: Access | None = None,
    refresh_s: float = DEFAULT_REFRESH_S,
    port: int = 0,
) -> Iterator[str]:
    """Serve the page while the block runs, and yield its address. See `create_app` for arguments.

    Raises:
        ConfigurationError: the address or port cannot be used.
    """
    access = access or Access("127.0.0.1")
    app = create_app(clusters, access=access, refresh_s=refresh_s)
    # End the queries first: it releases the threads that wait for them.
    with (
        serving(app, host=access.host, port=port) as address,
        closing(app.state.sql_processes),
    ):
        yield address


def _answered(page: Page, slots: Slots, http_request: Request) -> Response:
    """The answer of a page; costly requests take one of the slots."""
    request.page = page.name
    cluster = request.clusters.get(http_request.path_params["cluster"])
    if cluster is None:
        raise HTTPException(404, "Unknown cluster.")
    request.cluster = cluster
    try:
        if "as_of" in request.query_params:
            raise ConfigurationError("unknown argument as_of: use at, such as ?at=5m")
        request.at = moment_of("at")
        if _is_current(cluster, http_request):
            return Response(status_code=304)
        is_costly = page.is_costly or (request.at is not None and not page.has_own_limit)
        with slots.taken() if is_costly else nullcontext():
            answer = page.view()
    except ConfigurationError as error:
        if page.is_json:
            return JSONResponse({"error": str(error)}, 400)
        raise
    response = answer if isinstance(answer, Response) else HTMLResponse(answer)
    if request.read_at is not None and response.status_code == HTTPStatus.OK:
        response.headers["ETag"] = f'"{request.read_at.timestamp()}"'
    return response


def _is_current(cluster: Cluster, http_request: Request) -> bool:
    """Whether the page that the browser has was read after the last change of the tables."""
    tag = _TAG.fullmatch(http_request.headers.get("If-None-Match", ""))
    if tag is None or request.at is not None:
        return False
    return float(tag[1]) > cluster.watch.changed_at().timestamp()


def _index(_request: Request) -> Response:
    """The overview of a single cluster, or the list of all clusters."""
    if len(request.clusters) > 1 or not request.clusters:
        return HTMLResponse(several_clusters.page())
    address = url_for("overview", cluster=next(iter(request.clusters)))
    query = urlencode(request.query_params.multi_items())
    return RedirectResponse(f"{address}?{query}" if query else address, 302)


def _styleguide(_request: Request) -> Response:
    return HTMLResponse(styleguide.page())


async def _login(access: Access, http_request: Request) -> Response:
    """The page on which visitors enter the token."""
    to = request.query_params.get("to", "/")
    signed_in = RedirectResponse(to if _OWN_PAGE.fullmatch(to) else "/", 302)
    if access.token is None:
        return RedirectResponse("/", 302)
    if http_request.method != "POST":
        return HTMLResponse(render_template("login.html", is_wrong=False))
    form = parse_qs((await http_request.body()).decode("utf-8", "replace"))
    if not access.sign_in(http_request, form.get("token", [""])[0], signed_in):
        return HTMLResponse(render_template("login.html", is_wrong=True), 403)
    return signed_in


async def _failed(http_request: Request, error: Exception) -> Response:
    """The answer to a request that failed: a page, or a problem of the API."""
    path = http_request.scope["path"]
    if is_of_api(path):
        return await problem(http_request, error)
    http = http_error(error)
    accepted = http_request.headers.get("Accept", "")
    is_visitor = "Authorization" not in http_request.headers and (
        "text/html" in accepted or "*/*" in accepted
    )
    if http.status_code == HTTPStatus.UNAUTHORIZED and is_visitor:
        return RedirectResponse(url_for("login", to=f"{quote(path)}?{http_request.url.query}"), 302)
    name = HTTPStatus(http.status_code).phrase
    title = "Cannot show this page" if isinstance(error, ConfigurationError) else name
    text = http.detail if http.detail != name else _NO_TEXT.get(http.status_code, name)
    page = render_template("error.html", title=title, message=text)
    return HTMLResponse(page, http.status_code, http.headers)
