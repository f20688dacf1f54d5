"""The measures and comparisons of alert rules in YAML: `lag: "> 1000"`, `time_lag: "> 5m"`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from coordinator_state.insight.group_status import time_text
from streaming.tables.durations import parse_duration

_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON: Final = re.compile(r"\s*(?P<operator>[<>]=?)\s*(?P<limit>\S.*?)\s*")


class Measure(NamedTuple):
    """A column of `group_lag`, and the function that combines its partitions into one value."""

    column: str
    total: Callable[[list[float]], float]
    is_time: bool = False
    is_age: bool = False
    """The value grows while the tables are behind, so that time is subtracted from it."""
    needs_lag: bool = False
    """Partitions with a lag of 0 do not have this measure."""
    needs_commit: bool = False
    """Partitions without a commit do not have this measure."""
    lower_bound: str | None = None
    """The column to use if `column` is null: the value is at least this."""
    is_lower_bound: str | None = None
    """The column that says that the value is a lower bound. It counts as the value: else a
    partition in which nothing new arrives would keep an alert from its end."""

    def proves(self, operator: str) -> bool:
        """Whether a comparison that holds for the known partitions holds for all of them."""
        return operator.startswith("<" if self.total is min else ">")


MEASURES: Final[Mapping[str, Measure]] = {
    "lag": Measure("lag", sum, is_lower_bound="is_lag_lower_bound"),
    "lag_to_last_stable": Measure("lag_to_last_stable", sum),
    "data_lost": Measure("data_lost", sum),
    "time_lag": Measure(
        "time_lag_ms",
        max,
        is_time=True,
        is_age=True,
        needs_lag=True,
        lower_bound="time_lag_at_least_ms",
    ),
    "retention_margin": Measure("retention_margin_ms", min, is_time=True, needs_lag=True),
    "commit_age": Measure("commit_age_ms", min, is_time=True, is_age=True, needs_commit=True),
    "commit_rate": Measure("commit_rate_per_s", sum),
    "produce_rate": Measure("produce_rate_per_s", sum),
}


AGEING: Final = frozenset(
    {"time_lag", "retention_margin", "commit_age", "commit_rate", "produce_rate"}
)
"""The measures that change although nothing is committed or produced."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison with a limit; times are in ms."""

    operator: str
    limit: float
    text: str

    @classmethod
    def of(cls, value: Any, *, is_time: bool) -> Comparison:
        """Parse a comparison.

        Raises:
            ValueError: the text is not a comparison.
        """
        example = "> 5m" if is_time else "> 1000"
        match = _COMPARISON.fullmatch(str(value))
        if match is None:
            raise ValueError(f"{value!r} is not a comparison such as {example!r}")
        text = match["limit"]
        try:
            limit = parse_duration(text).total_seconds() * 1000 if is_time else float(text)
        except ValueError as error:
            raise ValueError(f"{value!r} is not a comparison such as {example!r}") from error
        return cls(match["operator"], limit, f"{match['operator']} {text}")

    def holds(self, value: float) -> bool:
        """Whether a value meets the comparison."""
        return _OPERATORS[self.operator](value, self.limit)


def value_text(name: str, value: float) -> str:
    """The value of a measure as text; times get a unit.

    >>> value_text("lag", 1200.0), value_text("time_lag", 4210.0)
    ('1200', '4.2 s')
    """
    if name not in MEASURES or MEASURES[name].is_time:
        return time_text(value)
    return str(int(value)) if float(value).is_integer() else f"{value:.3g}"
