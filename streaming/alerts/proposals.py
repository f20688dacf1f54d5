"""Rules that fit a group, as YAML: one by its status, one by its lag, one by its time lag."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from coordinator_state.insight.group_status import Status

WITHOUT_RULE: Final = frozenset({Status.OK, Status.IDLE, Status.UNKNOWN})
"""Statuses that no rule is proposed for."""
_USUAL: Final = (Status.STALL, Status.STOP, Status.PENDING, Status.HANGING_TRANSACTION)
_MOMENTARY: Final = frozenset(
    {Status.REWIND, Status.DATA_LOSS, Status.OUT_OF_RANGE, Status.TOPIC_GONE}
)
"""Statuses that one event causes: waiting for them to hold for some time could miss them."""
_LEAST_LAG: Final = 100
_TIME_LAGS_S: Final = {"30s": 30, "1m": 60, "2m": 120, "5m": 300, "10m": 600, "30m": 1800}
_MOST_OF_A_NAME: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHabits:
    """The facts about a group that a proposal depends on.

    Attributes:
        group_id: the group.
        status: its status now, None if it does not exist.
        earlier: its statuses in the last day.
        lag: its lag now.
        usual_lag: a lag that it seldom exceeded in the last day; None if unknown.
        time_lag_ms: its time lag now, or a lower bound.
    """

    group_id: str
    status: Status | None
    earlier: Collection[Status]
    lag: int | None
    usual_lag: float | None
    time_lag_ms: int | None

    @property
    def is_in_trouble(self) -> bool:
        """Whether its status now is worth an alert."""
        return self.status is not None and self.status not in WITHOUT_RULE


def proposals(habits: GroupHabits) -> dict[str, str]:
    """The text of a rules file with one rule, by the condition of the rule.

    >>> habits = GroupHabits(
    ...     group_id="pay*", status=Status.STOP, earlier=(), lag=70_000, usual_lag=2_100.0,
    ...     time_lag_ms=400_000,
    ... )
    >>> for text in proposals(habits).values():
    ...     print(text)
    rules:
      - name: pay-stop
        groups: "pay[*]"
        status: [STOP]
        for: 2m
        severity: critical
    <BLANKLINE>
    rules:
      - name: pay-lag
        groups: "pay[*]"
        lag: "> 5000"
        for: 5m
    <BLANKLINE>
    rules:
      - name: pay-time-lag
        groups: "pay[*]"
        time_lag: "> 2m"
        for: 2m
    <BLANKLINE>
    """
    return {
        "status": _status_rule(habits),
        "lag": _rule(habits, "lag", f'lag: "> {_lag_limit(habits)}"', "for: 5m"),
        "time_lag": _rule(
            habits, "time-lag", f'time_lag: "> {_time_lag_limit(habits)}"', "for: 2m"
        ),
    }


def _status_rule(habits: GroupHabits) -> str:
    """The present trouble; else that of the last day, else the usual ones."""
    troubles = set(habits.earlier) - WITHOUT_RULE or set(_USUAL)
    if habits.status is not None and habits.is_in_trouble:
        troubles = {habits.status}
    statuses = sorted(troubles, key=lambda status: -status.rank)
    kind = statuses[0].value.lower().replace("_", "-") if len(statuses) == 1 else "trouble"
    lines = [f"status: [{', '.join(status.value for status in statuses)}]"]
    if not _MOMENTARY.intersection(statuses):
        lines.append("for: 2m")
    if statuses[0].rank >= Status.STOP.rank:
        lines.append("severity: critical")
    return _rule(habits, kind, *lines)


def _rule(habits: GroupHabits, kind: str, *lines: str) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", habits.group_id).strip("-")[:_MOST_OF_A_NAME] or "group"
    settings = (f"name: {name}-{kind}", f"groups: {_quoted(_pattern(habits.group_id))}", *lines)
    return "rules:\n  - {}\n".format("\n    ".join(settings))


def _lag_limit(habits: GroupHabits) -> int:
    """A round lag above the usual one; below the present one if that is the trouble."""
    limit = _rounded_up(max(2 * (habits.usual_lag or 0), _LEAST_LAG))
    if habits.is_in_trouble and habits.lag:
        while limit >= habits.lag and limit > 1:
            limit = _rounded_up(limit // 5)
    return limit


def _time_lag_limit(habits: GroupHabits) -> str:
    if not habits.is_in_trouble or not habits.time_lag_ms:
        return "5m"
    below = [name for name, limit_s in _TIME_LAGS_S.items() if 2000 * limit_s <= habits.time_lag_ms]
    return below[-1] if below else next(iter(_TIME_LAGS_S))


def _rounded_up(value: float) -> int:
    """The next of 1, 2, 5, 10, 20, 50, ...

    >>> _rounded_up(0), _rounded_up(101), _rounded_up(4200), _rounded_up(5000)
    (1, 200, 5000, 5000)
    """
    power = 10 ** math.floor(math.log10(max(value, 1)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= value)


def _pattern(name: str) -> str:
    """The shell pattern of one name; `?` stands for a `!` at its begin, which would exclude."""
    escaped = re.sub(r"[*?[]", r"[\g<0>]", name)
    return f"?{escaped[1:]}" if escaped.startswith("!") else escaped


def _quoted(text: str) -> str:
    r"""A text in YAML's double quotes, with unprintable characters as escapes.

    >>> print(_quoted('a"b\\\x1b\u202e'))
    "a\"b\\\x1b\u202e"
    """
    return '"{}"'.format(
        "".join(
            f"\\{character}"
            if character in '"\\'
            else character
            if character.isprintable()
            else character.encode("unicode_escape").decode("ascii")
            for character in text
        )
    )
