"""Errors of the API as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

from http import HTTPStatus

from flask import Flask, Response, current_app
from pydantic import BaseModel
from werkzeug.exceptions import HTTPException, NotFound, ServiceUnavailable

from streaming.api.fields import described
from streaming.errors import ConfigurationError
from streaming.views.sql.slots import Busy

MEDIA_TYPE = "application/problem+json"
_RETRY_AFTER_S = 5
_NO_ADDRESS = "There is no such address. /api/v1/openapi.json has the addresses of the API."


class Problem(BaseModel):
    """An error (RFC 9457)."""

    model_config = described()

    type: str = "about:blank"
    """Always `about:blank`: the status says the kind of error."""
    title: str
    """Name of the status."""
    status: int
    """HTTP status."""
    detail: str
    """Cause in one sentence."""


def handle_errors(app: Flask) -> None:
    """Answer errors of an application with problems."""
    app.register_error_handler(HTTPException, _of_http)
    app.register_error_handler(ConfigurationError, lambda error: _problem(400, str(error)))
    app.register_error_handler(Busy, _busy)
    app.register_error_handler(Exception, _unexpected)


def _of_http(error: HTTPException) -> Response:
    is_no_address = isinstance(error, NotFound) and error.description == NotFound.description
    detail = _NO_ADDRESS if is_no_address else error.description or ""
    response = _problem(error.code or 500, detail)
    kept = {"Allow", "Retry-After", "WWW-Authenticate", "Location"}
    headers = error.get_headers()
    response.headers.extend([header for header in headers if header[0] in kept])
    return response


def _busy(error: Busy) -> Response:
    return _of_http(ServiceUnavailable(str(error), retry_after=_RETRY_AFTER_S))


def _unexpected(error: Exception) -> Response:
    current_app.logger.error("unexpected error", exc_info=error)
    return _problem(500, "The answer cannot be computed. The log of the server has the reason.")


def _problem(status: int, detail: str) -> Response:
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return Response(problem.model_dump_json(), status=status, content_type=MEDIA_TYPE)
