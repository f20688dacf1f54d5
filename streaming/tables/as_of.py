"""The texts of `--as-of` and of other moments: a version of `load_progress`, or a time."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, timezone
from typing import Final, TypeAlias

from streaming.errors import ConfigurationError
from streaming.tables.clock import utc_now
from streaming.tables.durations import parse_duration

AsOf: TypeAlias = datetime | int

TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
"""The form of a time in UTC in errors and notes."""
TIME_FORMS: Final = "5m, 1 hour ago, 03:14, yesterday 14:00 or 2026-11-21T03:14:00Z"

_AGO: Final = " ago"
_HOUR: Final = re.compile(r"\d\d:")
_DAYS_AGO: Final = {"today": 0, "yesterday": 1}
_EPOCH: Final = datetime.fromtimestamp(0, timezone.utc)
"""Kafka has no earlier times. A page subtracts some minutes from a moment, which must not fail."""


def parse_as_of(text: str, *, now: datetime | None = None) -> AsOf:
    """Parse a version of `load_progress` or a time, which is in UTC unless it has a zone.

    A duration is a time before `now`. A time of day without a day is the last one before `now`.
    Times before 1970 are refused.

    >>> now = datetime(2026, 11, 21, 14, 0, tzinfo=timezone.utc)
    >>> for text in ("5m", "2 hours ago", "13:59", "14:01", "yesterday 14:00", "2026-11-21T03:14Z"):
    ...     print(parse_as_of(text, now=now))
    2026-11-21 13:55:00+00:00
    2026-11-21 12:00:00+00:00
    2026-11-21 13:59:00+00:00
    2026-11-20 14:01:00+00:00
    2026-11-20 14:00:00+00:00
    2026-11-21 03:14:00+00:00
    >>> parse_as_of("17")
    17

    Raises:
        ConfigurationError: the text is neither.
    """
    now = now or utc_now()
    words = text.strip().lower()
    try:
        if words.isdecimal():
            return int(words)
        moment = _moment(words, now)
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{text[:40]!r} is neither a version nor a time such as {TIME_FORMS}"
        ) from error
    if moment < _EPOCH:
        raise ConfigurationError(f"{text[:40]!r} is before 1970")
    return moment


def parse_time(text: str, *, now: datetime | None = None) -> datetime:
    """Parse a time as `parse_as_of` does.

    >>> parse_time("5m", now=datetime(2026, 11, 21, 14, 0, tzinfo=timezone.utc)).isoformat()
    '2026-11-21T13:55:00+00:00'

    Raises:
        ConfigurationError: the text is not a time; a version is none.
    """
    as_of = parse_as_of(text, now=now)
    if isinstance(as_of, int):
        raise ConfigurationError(f"{text[:40]} is not a time such as {TIME_FORMS}")
    return as_of


def in_utc(moment: datetime) -> datetime:
    """A time in UTC, as the `day` of rows is; a time without a zone is UTC already."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc)


def _moment(words: str, now: datetime) -> datetime:
    before = _duration(words.removesuffix(_AGO))
    if before is not None:
        return now - before
    day, _, of_day = words.rpartition(" ")
    if day in _DAYS_AGO:
        return _at(of_day, now) - timedelta(days=_DAYS_AGO[day])
    if _HOUR.match(words) is None:
        return in_utc(datetime.fromisoformat(_with_offset(words)))
    today = _at(words, now)
    return today if today <= now else today - timedelta(days=1)


def _duration(text: str) -> timedelta | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None


def _at(of_day: str, now: datetime) -> datetime:
    """A time of the current day; the day is that of the time's zone."""
    at = time.fromisoformat(_with_offset(of_day))
    zone = at.tzinfo or timezone.utc
    return in_utc(datetime.combine(now.astimezone(zone), at, zone))


def _with_offset(text: str) -> str:
    """Python 3.10 does not parse the Z."""
    return text.upper().replace("Z", "+00:00")
