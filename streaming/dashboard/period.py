"""The period that the charts, the timeline and the events of a group cover."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from streaming.dashboard.request import moment_of, moment_text, request
from streaming.errors import ConfigurationError

SPANS: Final = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(hours=24),
    "7d": timedelta(days=7),
}
DEFAULT_SPAN: Final = "1h"
_REACH: Final = timedelta(minutes=3)


@dataclass(frozen=True, slots=True)
class Period:
    """A period of time; `span` is its name in `SPANS`, None if the address names its limits."""

    since: datetime
    until: datetime
    span: str | None


def around(first: datetime, last: datetime | None = None) -> dict[str, Any]:
    """The arguments of an address that shows the minutes around a moment, or around two."""
    limits = {"since": first - _REACH, "until": (last or first) + _REACH}
    return {"span": None} | {name: moment_text(at, "seconds") for name, at in limits.items()}


def period_of(moment: datetime) -> Period:
    """The period of the address: `since` and `until`, or a `span` that ends at a moment.

    Raises:
        ConfigurationError: a limit is not a time, or the period does not end after its begin.
    """
    since, until = moment_of("since"), moment_of("until")
    if since is None:
        span = request.query_params.get("span", DEFAULT_SPAN)
        span = span if span in SPANS else DEFAULT_SPAN
        return Period(moment - SPANS[span], moment, span)
    until = min(until or moment, moment)
    if since >= until:
        raise ConfigurationError(f"the period ends at {until.isoformat()}, before its start")
    return Period(since, until, None)
