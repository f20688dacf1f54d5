"""Responses of the API: JSON with an ETag, and errors as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from hashlib import sha256
from http import HTTPStatus
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from streaming.api.answers import Part
from streaming.errors import ConfigurationError
from streaming.views.sql.slots import Busy

MEDIA_TYPE: Final = "application/problem+json"
_BUSY: Final = {"Retry-After": "5"}
_NO_ADDRESS: Final = "There is no such address. /api/v1/openapi.json has the addresses of the API."
_UNEXPECTED: Final = "The answer cannot be computed. The log of the server has the reason."
logger = logging.getLogger(__name__)


class Problem(Part):
    """An error (RFC 9457)."""

    type: str = "about:blank"
    """Always `about:blank`: the status says the kind of error."""
    title: str
    """Name of the status."""
    status: int
    """HTTP status."""
    detail: str
    """Cause in one sentence."""


def json_response(request: Request, body: str) -> Response:
    """A response with an ETag: a client that sends it back gets 304 while the body is the same."""
    tag = f'"{sha256(body.encode()).hexdigest()[:40]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": tag}
    kept = request.headers.get("If-None-Match", "").split(",")
    if {tag, "*"}.intersection(kept_tag.strip().removeprefix("W/") for kept_tag in kept):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")


def http_error(error: Exception) -> HTTPException:
    """The status, the text and the headers that answer an error."""
    if isinstance(error, HTTPException):
        return error
    if isinstance(error, ConfigurationError):
        return HTTPException(400, str(error))
    if isinstance(error, Busy):
        return HTTPException(503, str(error), _BUSY)
    logger.error("unexpected error", exc_info=error)
    return HTTPException(500, _UNEXPECTED)


async def problem(_request: Request, error: Exception) -> Response:
    """The answer to a request that failed."""
    http = http_error(error)
    title = HTTPStatus(http.status_code).phrase
    # An address without a route has no text of its own.
    detail = _NO_ADDRESS if http.detail == title == HTTPStatus.NOT_FOUND.phrase else http.detail
    body = Problem(title=title, status=http.status_code, detail=detail).model_dump_json()
    return Response(body, http.status_code, http.headers, MEDIA_TYPE)


PROBLEMS: Final[Mapping[Any, Any]] = {HTTPException: problem, Exception: problem}
"""The handlers of all errors."""
