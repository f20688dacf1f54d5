"""Pages: their addresses, limits and access, their templates, and their static files."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from streaming.dashboard.period import around
from streaming.dashboard.request import hash_of, here, request, url_for
from streaming.dashboard.shown import FILTERS
from streaming.views import lists

_FOREVER: Final = "public, max-age=31536000, immutable"
_TEMPLATES: Final = Environment(
    loader=FileSystemLoader(Path(__file__).with_name("templates")),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters.update({function.__name__: function for function in FILTERS})
_TEMPLATES.globals.update(request=request, url_for=url_for, here=here, around=around, lists=lists)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a cluster.

    Args:
        address: its address below `/c/<cluster>/`.
        name: its name in `url_for`.
        view: answers a request, with HTML or with a response.
        is_costly: whether it reads much history; few of them are computed at once. At a past moment
            every page is costly, because it computes a snapshot.
        has_own_limit: whether it bounds its work by itself, also at a past moment.
        may_be_linked: whether pages of other sites may link to it. If not, following a link would
            make the browser send a query.
        is_json: whether its errors are JSON.
    """

    address: str
    name: str
    view: Callable[[], str | Response]
    is_costly: bool = False
    has_own_limit: bool = False
    may_be_linked: bool = True
    is_json: bool = False


def render_template(name: str, /, **values: Any) -> str:
    """The HTML of a template; `snapshot` has the tables of the page."""
    snapshot = values.get("snapshot")
    if snapshot is not None and request.at is None:
        request.read_at = snapshot.reader.began_at
    return _TEMPLATES.get_template(name).render(values)


class HashedFiles(StaticFiles):
    """Static files.

    A file that is asked for with its hash never changes. With another hash, which a page of an
    earlier release has, the browser asks again each time.
    """

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        is_hashed = request.query_params.get("v") == hash_of(Path(full_path).name)
        response.headers["Cache-Control"] = _FOREVER if is_hashed else "no-cache"
        return response
