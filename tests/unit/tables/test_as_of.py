from __future__ import annotations

from datetime import datetime, timezone

import pytest

from streaming.errors import ConfigurationError
from streaming.tables.as_of import parse_as_of, parse_time

NOW = datetime(2026, 11, 21, 14, 0, tzinfo=timezone.utc)


def _on(day: int, hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, second, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-21T03:14:00Z", _on(21, 3, 14)),
        ("2026-11-21 03:14", _on(21, 3, 14)),
        ("2026-11-21T04:14:00+01:00", _on(21, 3, 14)),
        ("2026-11-21", _on(21, 0)),
        ("5m", _on(21, 13, 55)),
        ("1 minute ago", _on(21, 13, 59)),
        ("90 seconds ago", _on(21, 13, 58, 30)),
        ("2h ago", _on(21, 12)),
        ("3 days", _on(18, 14)),
        ("03:14", _on(21, 3, 14)),
        ("14:00", NOW),
        # In the future today, so it was yesterday.
        ("14:01", _on(20, 14, 1)),
        ("23:59:58", _on(20, 23, 59, 58)),
        ("Yesterday 14:00", _on(20, 14)),
        ("today 03:14:15", _on(21, 3, 14, 15)),
        ("yesterday 14:00+02:00", _on(20, 12)),
        # It is the 22nd in that zone.
        ("01:30+12:00", _on(21, 13, 30)),
    ],
)
def test_times_are_in_utc_unless_they_have_a_zone(text: str, moment: datetime) -> None:
    assert parse_as_of(text, now=NOW) == moment


@pytest.mark.parametrize(
    "text", ["", "yesterday", "tomorrow 14:00", "5x", "ago", "25:00", "today", "today 2h", "noon"]
)
def test_other_texts_are_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigurationError, match="neither a version nor a time such as 5m, 1 hour"):
        parse_as_of(text, now=NOW)


@pytest.mark.parametrize("text", ["0001-01-01T00:00Z", "1969-12-31T23:59:59Z", "30000 days"])
def test_times_before_kafkas_first_one_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="is before 1970"):
        parse_as_of(text, now=NOW)


def test_digits_are_a_version_and_no_time() -> None:
    assert parse_as_of("17") == 17
    assert parse_time("2026-11-21T03:14Z") == _on(21, 3, 14)
    with pytest.raises(ConfigurationError, match="17 is not a time such as 5m"):
        parse_time("17")
