"""The page on which visitors enter the token."""

from __future__ import annotations

import re
from urllib.parse import quote

from flask import Flask, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from streaming.http.access import Access, SignIn

_WITHOUT_TOKEN = frozenset({"login", "static"})
_NO_LINKS = frozenset({"sql", "group_chart", "group_statuses", "group_alert", "live"})
"""Links from other sites are refused too: following one would make the browser send a query."""
_OWN_PAGE = re.compile(r"/c/[!-\[\]-~]*")
"""Printable ASCII without the backslash, which browsers treat as a slash."""


def guard(app: Flask, access: Access) -> None:
    """Refuse requests without access, and lead visitors to the page for the token."""
    access.guard(
        app,
        SignIn(
            redirect=_to_login,
            is_open=lambda: request.endpoint in _WITHOUT_TOKEN,
            may_be_linked=lambda: request.endpoint not in _NO_LINKS,
        ),
    )
    app.add_url_rule("/login", "login", lambda: _login(access), methods=["GET", "POST"])


def _to_login() -> Response:
    query = request.query_string.decode("ascii", "replace")
    return redirect(url_for("login", to=f"{quote(request.path)}?{query}"))


def _login(access: Access) -> Response | tuple[str, int] | str:
    if access.token is None:
        return redirect("/")
    if request.method == "GET":
        return render_template("login.html", is_wrong=False)
    if not access.sign_in(request.form.get("token", "")):
        return render_template("login.html", is_wrong=True), 403
    to = request.args.get("to", "/")
    return redirect(to if _OWN_PAGE.fullmatch(to) else "/")
