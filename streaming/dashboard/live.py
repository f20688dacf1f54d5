"""The stream that tells an open page when the tables have changed."""

from __future__ import annotations

from typing import Final

from flask import Response, abort, current_app, g

from streaming.http.streams import Streams
from streaming.served.watch import Watch

STREAMS: Final = "streams"
"""The place of the streams among the extensions of the application."""
AT_MOST: Final = 64


def live() -> Response:
    """A stream of the times of changes, in ms since the epoch.

    A page that was read before such a time is out of date.
    """
    if g.at is not None:
        abort(404, "A past moment does not change.")
    streams: Streams = current_app.extensions[STREAMS]
    watch: Watch = g.cluster.watch
    every_s: float = g.refresh_s
    return streams.response(lambda: str(int(watch.changed_at(every_s).timestamp() * 1000)))


PAGES = (("live", "live", live),)
