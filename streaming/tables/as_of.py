"""The texts of `--as-of`: a version of `load_progress`, or a time."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TypeAlias

from streaming.errors import ConfigurationError

AsOf: TypeAlias = datetime | int


def parse_as_of(text: str) -> AsOf:
    """Parse a version of `load_progress` or an ISO 8601 time.

    >>> parse_as_of("17")
    17
    >>> parse_as_of("2026-11-21T03:14Z").isoformat()
    '2026-11-21T03:14:00+00:00'

    Raises:
        ConfigurationError: the text is neither.
    """
    try:
        if text.isdecimal():
            return int(text)
        # Python 3.10 does not parse the Z.
        return in_utc(datetime.fromisoformat(text.replace("Z", "+00:00")))
    except (ValueError, OverflowError) as error:
        raise ConfigurationError(
            f"{text[:40]!r} is neither a version nor a time such as 2026-11-21T03:14:00Z"
        ) from error


def in_utc(moment: datetime) -> datetime:
    """A time in UTC, as the `day` of rows is; a time without a zone is UTC already."""
    if moment.tzinfo is None:
        return moment.replace(tzinfo=timezone.utc)
    return moment.astimezone(timezone.utc)
