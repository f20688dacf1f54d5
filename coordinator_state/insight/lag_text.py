"""The lag of a group in a partition, as text."""

from __future__ import annotations

from typing import Final

from coordinator_state.insight.group_status import time_text
from coordinator_state.insight.partition_facts import PartitionFacts

# Samples of a log that rests are up to a minute old.
OLD_SAMPLE_MS: Final = 90_000


def lag_text(facts: PartitionFacts, growth_per_s: float | None = None) -> str:
    """Format the lag: "500 behind, oldest 90 s, +75/s"."""
    if facts.lag is None:
        return ""
    text = behind_text(facts.lag, is_lower_bound=facts.is_lag_lower_bound)
    text += details_text(facts.time_lag_ms, facts.time_lag_at_least_ms, growth_per_s)
    if facts.sample_age_ms is not None and facts.sample_age_ms > OLD_SAMPLE_MS:
        text += f" (log end as of {time_text(facts.sample_age_ms)} ago)"
    return text


def behind_text(lag: int, *, is_lower_bound: bool | None) -> str:
    """Format a number of records to read.

    >>> behind_text(1_250, is_lower_bound=False), behind_text(5, is_lower_bound=True)
    ('1,250 behind', 'at least 5 behind')
    """
    return f"{'at least ' if is_lower_bound else ''}{lag:,} behind"


def details_text(
    time_lag_ms: int | None, time_lag_at_least_ms: int | None, growth_per_s: float | None
) -> str:
    """Format the time lag and the growth of a lag: ", oldest at least 10 min, +75/s"."""
    parts = []
    if time_lag_ms is not None:
        parts.append(f"oldest {time_text(time_lag_ms)}")
    elif time_lag_at_least_ms:
        parts.append(f"oldest at least {time_text(time_lag_at_least_ms)}")
    if growth_per_s is not None and abs(growth_per_s) >= 0.05:
        parts.append(f"{'+' if growth_per_s > 0 else '-'}{rate_text(abs(growth_per_s))}/s")
    return "".join(f", {part}" for part in parts)


def oldest_text(facts: PartitionFacts) -> str:
    """Format the time lag, or its lower bound: "at least 10 min"."""
    if facts.time_lag_ms is not None:
        return time_text(facts.time_lag_ms)
    return f"at least {time_text(facts.time_lag_at_least_ms)}"


def rate_text(per_s: float) -> str:
    """Format a rate.

    >>> rate_text(8.254), rate_text(12_345.6)
    ('8.25', '12,346')
    """
    return f"{per_s:,.0f}" if abs(per_s) >= 100 else f"{per_s:.3g}"
