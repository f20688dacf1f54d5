"""The pages and their addresses.

A page shows one cluster, as of now or as of the moment `at` in its address. The address also holds
the sort order and the filters, so that users can share a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import wraps
from typing import Any
from urllib.parse import urlencode

from flask import Flask, abort, current_app, g, jsonify, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException, ServiceUnavailable
from werkzeug.wrappers import Response

from streaming.api.app import beside
from streaming.api.app import create_app as create_api
from streaming.dashboard import (
    changes,
    charts,
    compare,
    group,
    group_alert,
    group_plan,
    health,
    live,
    overview,
    queries,
    several_clusters,
    sparklines,
    story,
    styleguide,
    timeline,
    topic,
    topics,
    transactions,
)
from streaming.dashboard.addresses import here
from streaming.dashboard.assets import add_hashes
from streaming.dashboard.login import guard
from streaming.dashboard.moments import moment_of, moment_text
from streaming.dashboard.period import around
from streaming.dashboard.queries import PROCESSES, sql_processes
from streaming.dashboard.shown import add_filters
from streaming.errors import ConfigurationError
from streaming.http.access import Access
from streaming.http.compression import add_compression
from streaming.http.server import serving
from streaming.http.streams import Streams
from streaming.served import lists
from streaming.served.cluster import Cluster
from streaming.served.costly import costly_slots
from streaming.views.sql.slots import Busy, Slots

DEFAULT_REFRESH_S = 5.0
_PAGES = (
    *(overview, sparklines, compare, group, story, charts, timeline, group_alert, group_plan),
    *(topics, topic, transactions, changes, queries, health, live),
)
_RETRY_AFTER_S = 5
_JSON = frozenset({"group_chart", "group_statuses"})
_COSTLY = {
    *("sparklines", "compare", "changes", "group_chart"),
    *("group_why", "group_ticket", "group_timeline", "group_alert", "group_plan"),
    *("group_records", "group_record", "group_transactions"),
}
"""Pages that are always costly. At a past moment every page is, because it computes a snapshot."""
_BOUNDED_ELSEWHERE = "sql"


def create_app(
    clusters: Mapping[str, str],
    *,
    access: Access | None = None,
    refresh_s: float = DEFAULT_REFRESH_S,
) -> Flask:
    """The WSGI application of the page and the API.

    Args:
        clusters: tables folders by the name of the cluster.
        access: the access control; None allows only this machine.
        refresh_s: seconds between two refreshes of a page that shows the current state.
    """
    app = Flask(__name__)
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    access = access or Access("127.0.0.1")
    guard(app, access)
    add_compression(app)
    add_hashes(app)
    add_filters(app)
    known = {name: Cluster(name, tables) for name, tables in clusters.items()}
    app.extensions[PROCESSES] = sql_processes(clusters.values())
    app.extensions[live.STREAMS] = Streams(live.AT_MOST)
    app.before_request(lambda: _find_cluster(known, refresh_s))
    app.url_value_preprocessor(_set_cluster_name)
    app.url_defaults(_keep_cluster_and_moment)
    app.add_template_global(here)
    app.add_template_global(around)
    app.jinja_env.globals["lists"] = lists
    app.add_url_rule("/", "index", _index)
    app.add_url_rule("/styleguide", "styleguide", styleguide.page)
    slots = costly_slots()
    for page in _PAGES:
        for address, name, view in page.PAGES:
            app.add_url_rule(f"/c/<cluster>/{address}", name, _bounded(name, view, slots))
    app.register_error_handler(ConfigurationError, _refused)
    app.register_error_handler(Busy, _busy)
    app.register_error_handler(HTTPException, _failed)
    api = create_api(known, access=access, slots=slots)
    app.wsgi_app = beside(app.wsgi_app, api)  # type: ignore[assignment, method-assign]
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
    # End the queries and the streams first: it releases the threads that wait for them.
    with (
        serving(app, host=access.host, port=port, streams=live.AT_MOST) as address,
        closing(app.extensions[PROCESSES]),
        closing(app.extensions[live.STREAMS]),
    ):
        yield address


def _bounded(name: str, view: Callable[[], Any], slots: Slots) -> Callable[[], Any]:
    """The view; costly requests take one of the slots."""
    if name == _BOUNDED_ELSEWHERE:
        return view

    @wraps(view)
    def bounded() -> Any:
        if name not in _COSTLY and g.at is None:
            return view()
        with slots.taken():
            return view()

    return bounded


def _set_cluster_name(_endpoint: str | None, values: dict[str, Any] | None) -> None:
    """Note the cluster name of an address. `_find_cluster` checks it after the access control."""
    g.clusters, g.cluster, g.at = {}, None, None
    g.cluster_name = values.pop("cluster", None) if values is not None else None


def _find_cluster(known: Mapping[str, Cluster], refresh_s: float) -> None:
    """Set the cluster and the moment of an address."""
    g.clusters, g.refresh_s = known, refresh_s
    if g.cluster_name is not None:
        g.cluster = known.get(g.cluster_name)
        if g.cluster is None:
            abort(404, "Unknown cluster.")
        if "as_of" in request.args:
            raise ConfigurationError("unknown argument as_of: use at, such as ?at=5m")
        g.at = moment_of("at")


def _keep_cluster_and_moment(endpoint: str, values: dict[str, Any]) -> None:
    """Make links lead to the same cluster and moment."""
    if not g.get("cluster") or not current_app.url_map.is_endpoint_expecting(endpoint, "cluster"):
        return
    if values.setdefault("cluster", g.cluster.name) == g.cluster.name and g.at:
        values.setdefault("at", moment_text(g.at))


def _index() -> str | Response:
    """The overview of a single cluster, or the list of all clusters."""
    if len(g.clusters) == 1:
        address = url_for("overview", cluster=next(iter(g.clusters)))
        query = urlencode(list(request.args.items(multi=True)))
        return redirect(f"{address}?{query}" if query else address)
    return several_clusters.page()


def _refused(error: ConfigurationError) -> tuple[Any, int]:
    if request.endpoint in _JSON:
        return jsonify({"error": str(error)}), 400
    return render_template("error.html", title="Cannot show this page", message=str(error)), 400


def _busy(error: Busy) -> tuple[str, int, dict[str, str]]:
    return _failed(ServiceUnavailable(str(error), retry_after=_RETRY_AFTER_S))


def _failed(error: HTTPException) -> tuple[str, int, dict[str, str]]:
    shown = render_template("error.html", title=error.name, message=error.description)
    wait_s = getattr(error, "retry_after", None)
    return shown, error.code or 500, {} if wait_s is None else {"Retry-After": str(wait_s)}
