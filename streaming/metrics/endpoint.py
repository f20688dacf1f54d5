"""The HTTP endpoint `/metrics`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streaming.http.compression import accepts_gzip
from streaming.metrics.scrapes import Scrapes

_LONGEST_WAIT_S: Final = 9.0
"""Less than the default scrape timeout of Prometheus, 10 s."""
_SHARE_OF_TIMEOUT: Final = 0.9
_SCRAPE_TIMEOUT: Final = "X-Prometheus-Scrape-Timeout-Seconds"
_OPENMETRICS: Final = "application/openmetrics-text"


def create_app(scrapes: Scrapes) -> Starlette:
    """The ASGI application; its server needs more than 4 threads."""

    def metrics(request: Request) -> Response:
        collection = scrapes.latest(_wait_s(request.headers))
        if collection is None:
            reason = "the tables are still being read; retry in 5 s\n"
            return PlainTextResponse(reason, 503, {"Retry-After": "5"})
        is_openmetrics = _OPENMETRICS in request.headers.get("Accept", "")
        is_gzip = accepts_gzip(request.headers)
        headers = {
            "Content-Type": CONTENT_TYPE_LATEST if is_openmetrics else CONTENT_TYPE_PLAIN_0_0_4,
            "Vary": "Accept, Accept-Encoding",
        }
        if is_gzip:
            headers["Content-Encoding"] = "gzip"
        text = collection.text(is_openmetrics=is_openmetrics, is_gzip=is_gzip)
        return Response(text, headers=headers)

    return Starlette(routes=[Route("/", metrics), Route("/metrics", metrics)])


def _wait_s(headers: Mapping[str, str]) -> float:
    """The time that this scrape can wait for a collection."""
    try:
        timeout_s = float(headers.get(_SCRAPE_TIMEOUT, ""))
    except ValueError:
        return _LONGEST_WAIT_S
    if not math.isfinite(timeout_s):
        return _LONGEST_WAIT_S
    return max(0.0, min(_SHARE_OF_TIMEOUT * timeout_s, _LONGEST_WAIT_S))
