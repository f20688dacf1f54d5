"""Access control of the page and the API in Flask, by the rules of `AccessRules`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from flask import Flask, Response, abort, request, session
from flask.sessions import SecureCookieSessionInterface
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import Unauthorized
from werkzeug.wrappers import Response as AnyResponse

from streaming.http.access_rules import PROXY_ADVICE, AccessRules
from streaming.http.own_names import OwnNames

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
_REALM: dict[str, str | None] = {"realm": "coordinator-state"}


@dataclass(frozen=True, slots=True)
class SignIn:
    """The way in for visitors with a browser.

    Args:
        redirect: the answer to a request without a token.
        is_open: whether the request needs no token.
        may_be_linked: whether pages of other sites may link to the address of the request.
    """

    redirect: Callable[[], AnyResponse]
    is_open: Callable[[], bool]
    may_be_linked: Callable[[], bool]


class _Sessions(SecureCookieSessionInterface):
    def get_cookie_secure(self, _app: Flask) -> bool:
        """Whether the browser sends the cookie over TLS only: it has reached a proxy with TLS."""
        return request.is_secure or request.headers.get("X-Forwarded-Proto") == "https"


@dataclass(frozen=True, slots=True)
class Access(AccessRules):
    """The access control of the page and the API."""

    def guard(self, app: Flask, sign_in: SignIn | None = None) -> None:
        """Refuse requests without access, and add security headers to responses.

        Args:
            app: the application.
            sign_in: the answer to visitors without a token. Without it they get the status 401, and
                links from other sites are refused.
        """
        # The key depends on the token: a new token ends every session.
        app.secret_key = sha256(f"session {self.token}".encode()).digest()
        app.config.update(SESSION_COOKIE_HTTPONLY=True, SESSION_COOKIE_SAMESITE="Lax")
        app.session_interface = _Sessions()
        app.wsgi_app = OwnNames(app.wsgi_app, self.names)  # type: ignore[method-assign]
        app.before_request(lambda: self._check(sign_in))
        app.after_request(_add_security_headers)

    def sign_in(self, token: str) -> bool:
        """Remember in the visitor's session that the token is correct; False if it is not."""
        if not self.is_token(token):
            return False
        session["may_see"] = True
        return True

    def _check(self, sign_in: SignIn | None) -> AnyResponse | None:
        if _is_from_another_site(may_be_linked=sign_in is not None and sign_in.may_be_linked()):
            abort(403, "Requests from other sites are refused.")
        if self.auth_header is not None and not request.headers.get(self.auth_header):
            abort(403, PROXY_ADVICE)
        if self.token is None or (sign_in is not None and sign_in.is_open()) or self._has_token():
            return None
        is_visitor = "Authorization" not in request.headers and request.accept_mimetypes.accept_html
        if sign_in is not None and is_visitor:
            return sign_in.redirect()
        raise Unauthorized(
            "The token is missing or wrong: send it as a bearer token.",
            www_authenticate=WWWAuthenticate("bearer", _REALM),
        )

    def _has_token(self) -> bool:
        authorization = request.headers.get("Authorization", "")
        return bool(session.get("may_see")) or self.has_token(authorization)


def _is_from_another_site(*, may_be_linked: bool) -> bool:
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
    return not is_link or (site == "cross-site" and not may_be_linked)


def _add_security_headers(response: Response) -> Response:
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return response
