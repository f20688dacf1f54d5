"""The text of values: filters of the templates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from markupsafe import Markup

from coordinator_state.insight.group_status import Status, count_text, time_text
from coordinator_state.insight.lag_trend import Trend, trend_text
from coordinator_state.insight.partition_text import partitions_text, tasks_text
from coordinator_state.insight.state_meanings import STATE_MEANINGS, STATUS_MEANINGS
from streaming.tables.clock import utc_now
from streaming.views.sql.forms import TIME
from streaming.views.text import printable

_NONE = Markup('<span class="none" title="not known">-</span>')
_MEANINGS = {status.value: text for status, text in STATUS_MEANINGS.items()} | {**STATE_MEANINGS}
_LEVELS = {
    **dict.fromkeys((Status.OK, Status.IDLE), "good"),
    **dict.fromkeys((Status.UNKNOWN,), "unknown"),
    **dict.fromkeys((Status.EXPIRING, Status.WARN, Status.REBALANCING_LOOP), "warning"),
}


def number(value: float | None) -> str:
    """A number with thousands separators.

    >>> number(1234567), number(0.25), number(1234.5)
    ('1,234,567', '0.25', '1,234')
    """
    if value is None:
        return _NONE
    if isinstance(value, int) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def lag(records: int | None, is_lower_bound: bool | None) -> str:
    """A lag, which may be a lower bound.

    >>> lag(1_250, False), str(lag(1_250, True))
    ('1,250', '<span class="unit" title="at least 1,250">≥ </span>1,250')
    """
    if records is None or not is_lower_bound:
        return number(records)
    sign = Markup('<span class="unit" title="at least {}">≥ </span>').format(number(records))
    return sign + number(records)


def count(value: int | None, noun: str) -> str:
    """A number of things.

    >>> count(1, "member"), count(1_250, "member")
    ('1 member', '1,250 members')
    """
    return Markup("{} {}s").format(_NONE, noun) if value is None else count_text(value, noun)


def duration(ms: float | None) -> str:
    """A duration in ms, with its unit in a span of its own.

    >>> str(duration(4_200))
    '4.2<span class="unit"> s</span>'
    """
    if ms is None:
        return _NONE
    return Markup('{}<span class="unit"> {}</span>').format(*time_text(ms).split(" "))


def time_lag(ms: float | None, at_least_ms: float | None) -> str:
    """A time lag in ms, or its lower bound.

    >>> str(time_lag(None, 600_000))
    '<span class="unit" title="at least 10 min">≥ </span>10<span class="unit"> min</span>'
    """
    if at_least_ms is None or at_least_ms == ms:
        return duration(ms)
    sign = Markup('<span class="unit" title="at least {}">≥ </span>').format(time_text(at_least_ms))
    return sign + duration(at_least_ms)


_ARROWS = {Trend.GROWING: "↗", Trend.STEADY: "→", Trend.SHRINKING: "↘"}


def trend(growth_per_s: float | None, time_to_catch_up_ms: float | None) -> str:
    """The trend of a lag: an arrow for the eye, and the same as text."""
    if growth_per_s is None:
        return _NONE
    direction = Trend.of(growth_per_s)
    shown = Markup('<span class="trend {}"><span aria-hidden="true">{}</span> {}</span>')
    return shown.format(
        direction.value, _ARROWS[direction], trend_text(growth_per_s, time_to_catch_up_ms)
    )


def moment(value: datetime | None) -> str:
    """A moment in UTC; the script of the page converts it to the time zone of the reader."""
    if value is None:
        return _NONE
    if value.tzinfo is None:
        return f"{value:%Y-%m-%d %H:%M:%S}"
    utc = value.astimezone(timezone.utc)
    utc_text = f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}">{}</time>').format(utc.isoformat(), utc_text)


def ago(value: datetime | None, at: datetime) -> str:
    """The time from a moment to the moment of the page; hovering shows the moment itself."""
    if value is None:
        return _NONE
    utc = value.astimezone(timezone.utc)
    return Markup('<time datetime="{}" data-ago title="{}">{} ago</time>').format(
        utc.isoformat(),
        f"{utc:%Y-%m-%d %H:%M:%S} UTC",
        time_text(max((at - value).total_seconds(), 0) * 1000),
    )


def age_ms(value: datetime) -> int:
    """The time since a moment in ms; 0 if the moment is ahead of this clock."""
    return max(int((utc_now() - value).total_seconds() * 1000), 0)


def text(value: str | None) -> str:
    """Text that a client chose, with unprintable characters as escapes."""
    if value is None:
        return _NONE
    return printable(value) if value else Markup('<span class="none">(empty)</span>')


def plain(value: str) -> str:
    r"""Text that a client chose, for an attribute, which has no elements.

    >>> plain("a\tb"), plain("")
    ('a\\tb', '(empty)')
    """
    return printable(value) or "(empty)"


def cell(value: str | None, kind: str) -> str:
    """A cell of an SQL result, as `ShownAnswer` holds it."""
    if kind == TIME and value is not None:
        return moment(datetime.fromisoformat(value))
    return text(value)


def level(status: str) -> str:
    """The severity of a status, for its colour."""
    return _LEVELS.get(Status(status), "bad")


def meaning(name: str | None) -> str:
    """The meaning of a status or of a state of a group; empty for other names."""
    return _MEANINGS.get(name or "", "")


def assignment(partitions: Iterable[Mapping[str, Any]] | None) -> str:
    """Partitions grouped by topic: `orders 0-2, 5`."""
    return _NONE if partitions is None else printable(partitions_text(partitions))


def tasks(of_member: Iterable[Mapping[str, Any]] | None) -> str:
    """Tasks of a member of a streams group."""
    return printable(tasks_text(of_member))


FILTERS: Final[tuple[Callable[..., object], ...]] = (
    *(number, lag, count, duration, time_lag, trend, moment, ago, age_ms),
    *(text, plain, cell, level, meaning, assignment, tasks),
)
"""The filters of the templates, by their names."""
