"""Durations in both common notations, such as `5s` and `5 seconds`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from coordinator_state.log.commit_sampling import HistoryResolution, Resolution

DEFAULT_HISTORY_RETENTION: Final = "7 days"
DEFAULT_HISTORY_RESOLUTION: Final = "5s/1h, 1m/1d, 10m"

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


def parse_history_resolution(text: str) -> HistoryResolution:
    """Parse intervals with the age up to which each counts, and the interval of older records.

    >>> parse_history_resolution("5s/1h, 10m").interval_ms(3_600_000)
    600000

    Raises:
        ValueError: a part has another form, or the intervals or ages are those of no resolution.
    """
    *young, oldest = text.split(",")
    steps = tuple(Resolution(*_milliseconds(part, 2)) for part in young)
    (oldest_interval_ms,) = _milliseconds(oldest, 1)
    try:
        return HistoryResolution(steps, oldest_interval_ms)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from error


def _milliseconds(part: str, count: int) -> list[int]:
    """The durations of a part, which are separated by a slash."""
    durations = part.split("/")
    if len(durations) != count:
        raise ValueError(f"{part.strip()!r} is not of the form {DEFAULT_HISTORY_RESOLUTION}")
    return [parse_duration(each) // timedelta(milliseconds=1) for each in durations]
