"""The stream that tells an open page when the tables have changed."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

from streaming.dashboard.rendered import Page
from streaming.dashboard.request import request
from streaming.http.streams import Streams
from streaming.served.watch import Watch

AT_MOST: Final = 64


def live() -> StreamingResponse:
    """A stream of the times of changes, in ms since the epoch.

    A page that was read before such a time is out of date.
    """
    if request.at is not None:
        raise HTTPException(404, "A past moment does not change.")
    streams: Streams = request.app.state.streams
    watch: Watch = request.cluster.watch
    every_s: float = request.app.state.refresh_s
    return streams.response(lambda: str(int(watch.changed_at(every_s).timestamp() * 1000)))


PAGES = (Page("live", "live", live, may_be_linked=False),)
