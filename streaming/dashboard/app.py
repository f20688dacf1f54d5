"""The pages and their addresses.

Every page is of one cluster, and of now or of the moment `at` of its address; what it shows, how
it is sorted and filtered, all is in the address, so that it can be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any
from urllib.parse import quote, urlencode

from flask import Flask, abort, current_app, g, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException, ServiceUnavailable
from werkzeug.wrappers import Response

from streaming.dashboard import changes, group, health, overview, queries, topic
from streaming.dashboard.access import Access
from streaming.dashboard.cluster import Cluster
from streaming.dashboard.moments import moment_of
from streaming.dashboard.queries import PROCESSES, sql_processes
from streaming.dashboard.shown import add_filters
from streaming.errors import ConfigurationError
from streaming.metrics.server import serving
from streaming.views.sql.slots import Busy, Slots

DEFAULT_REFRESH_S = 5.0
_RETRY_AFTER_S = 5
_COSTLY = frozenset({"changes", "group_chart"})
"""Pages that are costly at any moment; for a past moment every page computes a snapshot."""
_BOUNDED_ELSEWHERE = "sql"
COSTLY_AT_ONCE = 2
MAY_WAIT = 4
_WAIT_S = 10.0


def create_app(
    clusters: Mapping[str, str],
    *,
    access: Access | None = None,
    refresh_s: float = DEFAULT_REFRESH_S,
) -> Flask:
    """The WSGI application.

    Args:
        clusters: tables folders by the name of the cluster.
        access: who may see it; those on this machine where there is none.
        refresh_s: how often a page that shows now is loaded again.
    """
    app = Flask(__name__)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    (access or Access("127.0.0.1")).guard(app)
    add_filters(app)
    known = {name: Cluster(name, tables) for name, tables in clusters.items()}
    app.extensions[PROCESSES] = sql_processes(clusters.values())
    app.before_request(lambda: _find_cluster(known, refresh_s))
    app.url_value_preprocessor(_note_cluster)
    app.url_defaults(_stay)
    app.add_template_global(here)
    app.add_url_rule("/", "index", _index)
    slots = Slots("pages of the past", COSTLY_AT_ONCE, waiting=MAY_WAIT, wait_s=_WAIT_S)
    for page in (overview, group, topic, changes, queries, health):
        for address, name, view in page.PAGES:
            app.add_url_rule(f"/c/<cluster>/{address}", name, _bounded(name, view, slots))
    app.register_error_handler(ConfigurationError, _refused)
    app.register_error_handler(Busy, _busy)
    app.register_error_handler(HTTPException, _failed)
    return app


@contextmanager
def serving_page(
    clusters: Mapping[str, str],
    *,
    access: Access | None = None,
    refresh_s: float = DEFAULT_REFRESH_S,
    port: int = 0,
) -> Iterator[str]:
    """Serve the page while the block runs; gives its address. The arguments are `create_app`'s.

    Raises:
        ConfigurationError: nobody can listen there.
    """
    access = access or Access("127.0.0.1")
    app = create_app(clusters, access=access, refresh_s=refresh_s)
    # Queries end first, and with them the threads that wait for them.
    with serving(app, host=access.host, port=port) as address, closing(app.extensions[PROCESSES]):
        yield address


def _bounded(name: str, view: Callable[[], Any], slots: Slots) -> Callable[[], Any]:
    """The page, in one of the slots where it computes much."""
    if name == _BOUNDED_ELSEWHERE:
        return view

    @wraps(view)
    def bounded() -> Any:
        if name not in _COSTLY and g.at is None:
            return view()
        with slots.taken():
            return view()

    return bounded


def _note_cluster(_endpoint: str | None, values: dict[str, Any] | None) -> None:
    """The cluster that an address names; whether there is one is for those who may see it."""
    g.clusters, g.cluster, g.at = {}, None, None
    g.cluster_name = values.pop("cluster", None) if values is not None else None


def _find_cluster(known: Mapping[str, Cluster], refresh_s: float) -> None:
    """The cluster of an address, and the moment that it asks for."""
    g.clusters, g.refresh_s = known, refresh_s
    if g.cluster_name is not None:
        g.cluster = known.get(g.cluster_name)
        if g.cluster is None:
            abort(404, "There is no such cluster.")
        g.at = moment_of("at")


def _stay(endpoint: str, values: dict[str, Any]) -> None:
    """Links lead to the same cluster at the same moment."""
    if not g.get("cluster") or not current_app.url_map.is_endpoint_expecting(endpoint, "cluster"):
        return
    if values.setdefault("cluster", g.cluster.name) == g.cluster.name and g.at:
        values.setdefault("at", g.at.isoformat().replace("+00:00", "Z"))


def here(**other: Any) -> str:
    """The address of this page with some of its arguments changed, without those of None."""
    arguments = {**request.args.to_dict(), **other}
    view = {name: value for name, value in arguments.items() if value is not None}
    return f"{quote(request.path)}?{urlencode(view)}"


def _index() -> str | Response:
    """The overview of the one cluster there is, or all of them."""
    if len(g.clusters) == 1:
        return redirect(url_for("overview", cluster=next(iter(g.clusters))))
    return render_template("clusters.html", clusters=overview.of_clusters(g.clusters.values()))


def _refused(error: ConfigurationError) -> tuple[str, int]:
    return render_template("error.html", title="This cannot be shown", message=str(error)), 400


def _busy(error: Busy) -> tuple[str, int, dict[str, str]]:
    return _failed(ServiceUnavailable(str(error), retry_after=_RETRY_AFTER_S))


def _failed(error: HTTPException) -> tuple[str, int, dict[str, str]]:
    shown = render_template("error.html", title=error.name, message=error.description)
    wait_s = getattr(error, "retry_after", None)
    return shown, error.code or 500, {} if wait_s is None else {"Retry-After": str(wait_s)}
