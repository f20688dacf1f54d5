"""The columns of the overview: the address chooses them, and a cookie keeps the choice."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from starlette.responses import HTMLResponse, Response

from streaming.dashboard.request import request

COLUMNS: Final = {
    "why": "Why",
    "lag": "Lag",
    "history": "Recent lag",
    "trend": "Trend",
    "time_lag": "Time lag",
    "since": "Status since",
    "state": "State",
    "members": "Members",
    "margin": "Retention margin",
}
"""The columns beside group and status, by their names in the address."""
_COOKIE: Final = "columns"
_KEPT_FOR_S: Final = 365 * 86_400


def chosen_columns() -> Collection[str]:
    """The columns of the address, else those of the last visit, else all; in the order of COLUMNS.

    An address has one argument `columns` per column. An empty one stands for the form itself, so
    that no column can be chosen.
    """
    names = request.query_params.getlist("columns")
    if not names and _COOKIE in request.cookies:
        names = request.cookies[_COOKIE].split(".")
    return [name for name in COLUMNS if name in names] if names else list(COLUMNS)


def keeping_columns(page: str) -> Response:
    """The page; if its address chooses columns, they are kept for the next visit."""
    response = HTMLResponse(page)
    if "columns" in request.query_params:
        names = ".".join(chosen_columns())
        response.set_cookie(_COOKIE, names, max_age=_KEPT_FOR_S, samesite="lax", httponly=True)
    return response
