"""Durations in both common notations, such as `5s` and `5 seconds`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

DEFAULT_HISTORY_RETENTION: Final = "7 days"

DURATION_FORM: Final = "60s, 5m, 1h or 7d"
_WORDS: Final = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d"}
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(
    rf"(?P<number>\d+(\.\d+)?) ?((?P<unit>{'|'.join(_UNIT_MS)})|(?P<word>{'|'.join(_WORDS)})s?)"
)


def parse_duration(text: str) -> timedelta:
    """Parse a duration: a number and a unit, which may be a word as in Spark's triggers.

    >>> parse_duration("1.5h"), parse_duration("5 seconds")
    (datetime.timedelta(seconds=5400), datetime.timedelta(seconds=5))

    Raises:
        ValueError: the text is not a duration, or too long.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration such as {DURATION_FORM}")
    unit = match["unit"] or _WORDS[match["word"]]
    try:
        return timedelta(milliseconds=float(match["number"]) * _UNIT_MS[unit])
    except OverflowError as error:
        raise ValueError(f"{text!r} is too long") from error


def parse_history_retention(text: str) -> timedelta:
    """Parse a retention of history, which is deleted in whole days.

    >>> parse_history_retention("30d")
    datetime.timedelta(days=30)

    Raises:
        ValueError: the text is not a duration of at least a day, or too long.
    """
    retention = parse_duration(text)
    if retention < timedelta(days=1):
        raise ValueError(f"{text!r} is less than a day: history is deleted in whole days")
    return retention
