"""When the tables were last written, and how far they are behind `__consumer_offsets`.

`run` writes `load_progress` with each micro-batch. It also confirms an unchanged log in
`log_offsets` every `CONFIRM_EVERY`, so a quiet cluster does not look stale. Without samples
(`run --lag-interval off`) nothing is written while no group commits: stale tables and a quiet log
then look the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pyarrow.compute as pc

from coordinator_state.insight.group_status import (
    Status,
    StatusRules,
    Verdict,
    moment_text,
    stale_tables,
    time_text,
)
from streaming.lag.group_lag import tables_known_until
from streaming.lag.last_writes import SAMPLED_WITHIN, last_micro_batch, newest_sample
from streaming.tables.clock import utc_now
from streaming.tables.reader import TableReader

CLOCKS_DIFFER: Final = timedelta(minutes=10)
"""Tables that were written later than that much after now have the time of a wrong clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """The last writes of a tables folder before `at`; None if there was none."""

    at: datetime
    loaded_at: datetime | None
    sampled_at: datetime | None

    @classmethod
    def of(cls, reader: TableReader, at: datetime | None = None) -> Freshness:
        """The freshness at a time, by default the moment of the snapshot."""
        now = at or reader.moment
        loaded_at, sampled_at = last_micro_batch(reader, now), newest_sample(reader, now)
        return cls(at=now, loaded_at=loaded_at, sampled_at=sampled_at)

    @property
    def written_at(self) -> datetime | None:
        """When the tables were last written."""
        return max(filter(None, (self.loaded_at, self.sampled_at)), default=None)

    @property
    def age_ms(self) -> float | None:
        """The time since the last write; None without one, or if its clock was ahead."""
        at = self.written_at
        return None if at is None or at > self.at else (self.at - at).total_seconds() * 1000

    @property
    def is_sampled(self) -> bool:
        """Whether the last `run` sampled logs; only then a missing write shows that it stopped."""
        if self.loaded_at is None or self.sampled_at is None:
            return False
        return self.loaded_at - self.sampled_at <= SAMPLED_WITHIN

    @property
    def _of_wrong_clock(self) -> str | None:
        """The reason why nobody knows how old the tables are."""
        if self.loaded_at is None or self.loaded_at <= utc_now() + CLOCKS_DIFFER:
            return None
        moment = moment_text(self.loaded_at, self.at)
        return (
            f"written at {moment}, which is in the future: the clock of `run` or of this machine "
            "is wrong"
        )

    def verdict(self, rules: StatusRules) -> Verdict | None:
        """The verdict for every group if the tables are stale, None if they are not."""
        if self._of_wrong_clock is not None:
            return Verdict(Status.UNKNOWN, self._of_wrong_clock)
        if self.written_at is None or not self.is_sampled:
            return None
        return stale_tables(self.written_at, self.at, rules)

    def notice(self, rules: StatusRules) -> str | None:
        """A sentence for people if nothing was written for longer than `stale_after_ms`."""
        written_at = self.written_at
        if self._of_wrong_clock is not None:
            return f"The tables were {self._of_wrong_clock}."
        if written_at is None or stale_tables(written_at, self.at, rules) is None:
            return None
        ago = time_text(self.age_ms)
        said = f"Nothing written since {moment_text(written_at, self.at)} ({ago} ago)."
        if self.is_sampled:
            return f"{said} Is `run` running?"
        return (
            f"{said} `run` does not sample the logs (`--lag-interval off`), so either no group "
            "commits or `run` has stopped."
        )


def freshness_notice(reader: TableReader, at: datetime | None = None) -> str | None:
    """A sentence for people about stale tables or tables that are far behind; None if neither."""
    fresh = Freshness.of(reader, at)
    return notice_of(fresh, tables_known_to(reader, fresh.at), reader.status_rules)


def notice_of(fresh: Freshness, known_until: datetime | None, rules: StatusRules) -> str | None:
    """The same of tables that have every commit up to `known_until`."""
    notice = fresh.notice(rules)
    if notice is not None or known_until is None:
        return notice
    behind_ms = (fresh.at - known_until).total_seconds() * 1000
    if behind_ms <= rules.stale_after_ms:
        return None
    return f"The tables are {time_text(behind_ms)} behind __consumer_offsets."


def tables_known_to(reader: TableReader, at: datetime | None = None) -> datetime | None:
    """The time up to which the tables have every commit; None if it is unknown."""
    known = tables_known_until(reader, at).filter(pc.field("is_sampled"))
    known_until: datetime | None = pc.min(known["known_until"], skip_nulls=False).as_py()
    return known_until
