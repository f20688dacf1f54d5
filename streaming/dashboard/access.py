"""Who may see the page: on this machine everybody, from elsewhere whoever has the token.

The page answers to names of its own only, see `streaming.metrics.own_names`. One that listens
elsewhere than on 127.0.0.1 asks for a token, or takes the word of a reverse proxy that puts a
header into every request.
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
_OPEN = frozenset({"login", "static"})
_NO_LINKS = frozenset({"sql", "group_chart"})
"""Not even a link of another site leads there: it would have the visitor's browser send a query."""
_OWN_PAGE = re.compile(r"/c/[!-\[\]-~]*")
"""Printable ASCII but for the backslash, which browsers take for a slash."""
_ADVICE = "Use localhost, an IP address, or a name that --allowed-host gave to the page."


@dataclass(frozen=True, slots=True)
class Access:
    """What a request has to show.

    Args:
        host: the address to listen on.
        token: to be given once per browser, or as a bearer token with each request.
        auth_header: a header that a reverse proxy puts into the requests of those it let in.
        allowed_hosts: names that the page answers to, besides localhost, `host` and IP addresses.

    Raises:
        ConfigurationError: the page would be open to others without a token or a proxy, or the
            token is so short that it can be guessed.
    """

    host: str
    token: str | None = None
    auth_header: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    _attempts: Attempts = field(init=False, default_factory=Attempts)

    def __post_init__(self) -> None:
        if any(given is not None and not given.strip() for given in (self.token, self.auth_header)):
            raise ConfigurationError("a token, or the name of a header, is not empty")
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise ConfigurationError(
                f"the token has {len(self.token)} characters and needs at least {SHORTEST_TOKEN}, "
                "so that nobody guesses it: `openssl rand -hex 16` makes one"
            )
        if self.token is None and self.auth_header is None and not is_loopback(self.host):
            raise ConfigurationError(
                f"on {self.host} others could see the page: set a token "
                "(COORDINATOR_STATE_TOKEN, or token in the config file), or --auth-header for a "
                "reverse proxy that lets people in"
            )

    def guard(self, app: Flask) -> None:
        """Refuse requests that may not see the page, and limit what a page may load."""
        # Another token ends every session.
        app.secret_key = sha256(f"session {self.token}".encode()).digest()
        app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax")
        names = (self.host, *self.allowed_hosts)
        app.wsgi_app = OwnNames(app.wsgi_app, names, advice=_ADVICE)  # type: ignore[method-assign]
        app.before_request(self._check)
        app.after_request(_limit)
        app.add_url_rule("/login", "login", self._login, methods=["GET", "POST"])

    def _check(self) -> AnyResponse | None:
        if _is_of_another_site():
            abort(403, "Another site asked for this.")
        if self.auth_header is not None and not request.headers.get(self.auth_header):
            abort(403, "Come here through the reverse proxy.")
        if self.token is None or request.endpoint in _OPEN or self._has_token():
            return None
        if "Authorization" not in request.headers and request.accept_mimetypes.accept_html:
            query = request.query_string.decode("ascii", "replace")
            return redirect(url_for("login", to=f"{quote(request.path)}?{query}"))
        abort(401, "A bearer token is needed.")

    def _has_token(self) -> bool:
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        return bool(session.get("may_see")) or (scheme == "Bearer" and self._is_token(given))

    def _is_token(self, given: str) -> bool:
        # Digests are of one length: the time of a comparison says nothing of the token's.
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


def _is_of_another_site() -> bool:
    """Whether a page of another site has the visitor's browser ask for this.

    A link that the visitor follows may lead here. An image, a frame, a script or a form may not:
    pages compute much, and a site could ask for many. Browsers say by `Sec-Fetch-Site` who asks,
    other programs do not; a site on another port of this machine is `same-site`.
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


def _limit(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    if request.endpoint != "static":
        response.headers["Cache-Control"] = "no-store"
    return response
