"""The HTTP endpoint `/metrics`."""

from __future__ import annotations

import math
from io import BytesIO
from typing import Final

from flask import Flask, Response, request
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from werkzeug.datastructures import Headers
from werkzeug.wsgi import wrap_file

from streaming.metrics.scrapes import Scrapes

_LONGEST_WAIT_S: Final = 9.0
"""Less than the default scrape timeout of Prometheus, 10 s."""
_SHARE_OF_TIMEOUT: Final = 0.9
_SCRAPE_TIMEOUT: Final = "X-Prometheus-Scrape-Timeout-Seconds"
_OPENMETRICS: Final = "application/openmetrics-text"


def create_app(scrapes: Scrapes) -> Flask:
    """The WSGI application; its server needs more than 4 threads."""
    app = Flask(__name__)

    @app.get("/")
    @app.get("/metrics")
    def metrics() -> Response:
        collection = scrapes.latest(_wait_s(request.headers))
        if collection is None:
            return Response(
                "the tables are still being read; retry in 5 s\n", 503, {"Retry-After": "5"}
            )
        is_openmetrics = _OPENMETRICS in request.headers.get("Accept", "")
        is_gzip = request.accept_encodings["gzip"] > 0
        text = collection.text(is_openmetrics=is_openmetrics, is_gzip=is_gzip)
        # The server sends a file without blocking a thread while a slow client reads it.
        response = Response(wrap_file(request.environ, BytesIO(text)), direct_passthrough=True)
        response.content_length = len(text)
        response.headers["Content-Type"] = (
            CONTENT_TYPE_LATEST if is_openmetrics else CONTENT_TYPE_PLAIN_0_0_4
        )
        response.headers["Vary"] = "Accept, Accept-Encoding"
        if is_gzip:
            response.headers["Content-Encoding"] = "gzip"
        return response

    return app


def _wait_s(headers: Headers) -> float:
    """The time that this scrape can wait for a collection."""
    try:
        timeout_s = float(headers.get(_SCRAPE_TIMEOUT, ""))
    except ValueError:
        return _LONGEST_WAIT_S
    if not math.isfinite(timeout_s):
        return _LONGEST_WAIT_S
    return max(0.0, min(_SHARE_OF_TIMEOUT * timeout_s, _LONGEST_WAIT_S))
