"""Access control of the page: open on this machine, with a token or a reverse proxy elsewhere.

The page answers only to its own host names, see `streaming.metrics.own_names`. If it listens on
another address than 127.0.0.1, it asks for a token, or trusts the header of a reverse proxy.
"""

from __future__ import annotations

import hmac
import math
import re
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote

from flask import Flask, Response, abort, redirect, render_template, request, session, url_for
from werkzeug.exceptions import TooManyRequests
from werkzeug.wrappers import Response as AnyResponse

from streaming.dashboard.attempts import Attempts, TooManyAttempts
from streaming.errors import ConfigurationError
from streaming.metrics.own_names import OwnNames, is_loopback

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SHORTEST_TOKEN = 16
_WITHOUT_TOKEN = frozenset({"login", "static"})
_NO_LINKS = frozenset({"sql", "group_chart", "group_statuses"})
"""Links from other sites are refused too: following one would make the browser send a query."""
_OWN_PAGE = re.compile(r"/c/[!-\[\]-~]*")
"""Printable ASCII without the backslash, which browsers treat as a slash."""
_ADVICE = "Use localhost, an IP address, or a name set with --allowed-host."


@dataclass(frozen=True, slots=True)
class Access:
    """The conditions for access to the page.

    Args:
        host: the address to listen on.
        token: entered once per browser, or sent as a bearer token with each request.
        auth_header: a header that a reverse proxy adds to each authenticated request.
        allowed_hosts: host names to accept besides localhost, `host` and IP addresses.

    Raises:
        ConfigurationError: the page would be open to other machines without a token or a proxy, or
            the token is short enough to guess.
    """

    host: str
    token: str | None = None
    auth_header: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    _attempts: Attempts = field(init=False, default_factory=Attempts)

    def __post_init__(self) -> None:
        if any(given is not None and not given.strip() for given in (self.token, self.auth_header)):
            raise ConfigurationError("the token or the header name is empty")
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the token has {len(self.token)} characters and needs at least {SHORTEST_TOKEN}; "
                "`openssl rand -hex 16` generates one"
            )
        if self.token is None and self.auth_header is None and not is_loopback(self.host):
            raise ConfigurationError(
                f"on {self.host} other machines could see the page: set a token "
                "(COORDINATOR_STATE_TOKEN, or token in the config file), or --auth-header for a "
                "reverse proxy that authenticates users"
            )

    def guard(self, app: Flask) -> None:
        """Refuse requests without access, and add security headers to responses."""
        # The key depends on the token: a new token ends every session.
        app.secret_key = sha256(f"session {self.token}".encode()).digest()
        app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax")
        names = (self.host, *self.allowed_hosts)
        app.wsgi_app = OwnNames(app.wsgi_app, names, advice=_ADVICE)  # type: ignore[method-assign]
        app.before_request(self._check)
        app.after_request(_add_security_headers)
        app.add_url_rule("/login", "login", self._login, methods=["GET", "POST"])

    def _check(self) -> AnyResponse | None:
        if _is_from_another_site():
            abort(403, "Requests from other sites are refused.")
        if self.auth_header is not None and not request.headers.get(self.auth_header):
            abort(403, "Use the address of the reverse proxy: this request lacks its header.")
        if self.token is None or request.endpoint in _WITHOUT_TOKEN or self._has_token():
            return None
        if "Authorization" not in request.headers and request.accept_mimetypes.accept_html:
            query = request.query_string.decode("ascii", "replace")
            return redirect(url_for("login", to=f"{quote(request.path)}?{query}"))
        abort(401, "A bearer token is required.")

    def _has_token(self) -> bool:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        return bool(session.get("may_see")) or (scheme == "Bearer" and self._is_token(given))

    def _is_token(self, given: str) -> bool:
        # Digests have one length, so the time of a comparison does not reveal the token's length.
        digests = (sha256(text.encode()).digest() for text in (given, self.token or ""))
        try:
            return self._attempts.judge(
                request.remote_addr or "", lambda: hmac.compare_digest(*digests)
            )
        except TooManyAttempts as error:
            raise TooManyRequests(
                f"There were {error}.", retry_after=math.ceil(error.wait_s)
            ) from error

    def _login(self) -> AnyResponse | tuple[str, int] | str:
        if self.token is None:
            return redirect("/")
        if request.method == "GET":
            return render_template("login.html", is_wrong=False)
        if not self._is_token(request.form.get("token", "")):
            return render_template("login.html", is_wrong=True), 403
        session["may_see"] = True
        to = request.args.get("to", "/")
        return redirect(to if _OWN_PAGE.fullmatch(to) else "/")


def _is_from_another_site() -> bool:
    """Whether a page of another site makes the visitor's browser send this request.

    A link that the visitor follows is allowed. An image, a frame, a script or a form is refused:
    pages are costly to compute, and a site could request many. Browsers name the requesting site in
    `Sec-Fetch-Site`; other programs do not send it. A site on another port of this machine is
    `same-site`.
    """
    site = request.headers.get("Sec-Fetch-Site", "none")
    if site in {"none", "same-origin"}:
        return False
    is_link = (
        request.method == "GET"
        and request.headers.get("Sec-Fetch-Mode") == "navigate"
        and request.headers.get("Sec-Fetch-Dest") == "document"
    )
    return not is_link or (site == "cross-site" and request.endpoint in _NO_LINKS)


def _add_security_headers(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
    return response
