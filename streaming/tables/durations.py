"""Durations such as 60s, 5m, 1h or 7d, and intervals in the form of Spark's triggers."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

DEFAULT_HISTORY_RETENTION: Final = "7 days"

DURATION_FORM: Final = "60s, 5m, 1h or 7d"
_DURATION: Final = re.compile(r"(?P<number>\d+(\.\d+)?)(?P<unit>[smhd])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def parse_duration(text: str) -> timedelta:
    """Parse a duration: a number and a unit.

    >>> parse_duration("1.5h")
    datetime.timedelta(seconds=5400)

    Raises:
        ValueError: the text is not a duration, or too long.
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a duration such as {DURATION_FORM}")
    try:
        return timedelta(seconds=float(found["number"]) * _UNIT_S[found["unit"]])
    except OverflowError as error:
        raise ValueError(f"{text!r} is too long") from error


_INTERVAL: Final = re.compile(r"(?P<number>\d+) (?P<unit>millisecond|second|minute|hour|day)s?")


def parse_interval(text: str) -> timedelta:
    """Parse an interval in the form of Spark's triggers.

    >>> parse_interval("5 seconds"), parse_interval("1 day")
    (datetime.timedelta(seconds=5), datetime.timedelta(days=1))

    Raises:
        ValueError: the text is not an interval, or too long.
    """
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError("an interval is a number and a unit, such as '5 seconds'")
    try:
        return timedelta(**{f"{found['unit']}s": int(found["number"])})
    except OverflowError as error:
        raise ValueError(f"{text!r} is too long") from error
