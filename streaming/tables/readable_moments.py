"""The moments and versions at which the tables of a folder can be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Final

from streaming.clock import utc_now
from streaming.errors import ConfigurationError
from streaming.tables.as_of import AsOf
from streaming.tables.bases import bases_of
from streaming.tables.moments import TIME, CommitMoments

CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""The clocks of two machines may differ by this."""


@dataclass(frozen=True, slots=True)
class ReadableMoments:
    """The moments of snapshots that are kept, and earlier ones that a base reaches back to.

    Args:
        tables: the folder of the tables.
        commits: the moments of the versions of `load_progress`.
        retention: the retention of snapshots; None if the tables lack it.
        opened_at: the moment of a version whose log entry is deleted.
    """

    tables: str
    commits: CommitMoments
    retention: timedelta | None
    opened_at: datetime

    @property
    def begin_at(self) -> datetime:
        """The earliest time that can be read: that of the oldest base, or else snapshot."""
        bases = (base.moment for base in bases_of(self.tables) if base.is_complete)
        return min(next(bases, self.snapshots_begin_at), self.snapshots_begin_at)

    @property
    def snapshots_begin_at(self) -> datetime:
        """The earliest time for which the tables are sure to have a snapshot."""
        commits = self.commits
        first, newest = (commits.of(v) or self.opened_at for v in (commits.oldest, commits.newest))
        if self.retention is None:
            return first
        # Versions that were replaced within the retention are kept, and so is the newest version.
        return max(first, min(utc_now() - self.retention, newest))

    def is_before_snapshots(self, as_of: AsOf) -> bool:
        """Whether the snapshot of a version or time may be deleted."""
        begins_at, commits = self.snapshots_begin_at, self.commits
        if isinstance(as_of, datetime):
            return as_of < begins_at
        return as_of >= commits.oldest and as_of < (commits.version_at(begins_at) or 0)

    def version_of(self, as_of: AsOf) -> int:
        """The version of `load_progress` at a time, or the given version.

        Raises:
            ConfigurationError: there is none, the time is in the future, or the clock of `run` was
                ahead at that time.
        """
        commits = self.commits
        now = utc_now()
        if isinstance(as_of, datetime):
            is_future = as_of > max(now, commits.of(commits.newest) or as_of)
            version = None if is_future else commits.version_at(as_of)
        else:
            version = as_of if commits.oldest <= as_of <= commits.newest else None
        if version is None:
            raise self.no_snapshot(as_of)
        next_at = commits.of(min(version + 1, commits.newest))
        is_between = isinstance(as_of, datetime) and commits.of(version) != as_of <= now
        if is_between and next_at is not None and next_at > now + CLOCKS_DIFFER:
            # No clock can say whether the next version was written before that time.
            raise ConfigurationError(
                f"{self.tables} cannot say which snapshot is of {as_of:{TIME}}: the clock of `run` "
                f"was ahead, or this one is behind, so version {version + 1} has the time "
                f"{next_at:{TIME}}; name a version from {version} to {commits.newest}"
            )
        return version

    def no_snapshot(self, as_of: AsOf, more: str = "") -> ConfigurationError:
        """The error for a version or time without a snapshot; it names those that have one."""
        shown = str(as_of)
        if isinstance(as_of, datetime):
            shown = f"{as_of.astimezone(timezone.utc):{TIME}}"
        snapshots_begin_at, newest = self.snapshots_begin_at, self.commits.newest
        return ConfigurationError(
            f"{self.tables} has no snapshot as of {shown}{more}: the tables reach from "
            f"{self.begin_at:{TIME}} to now; versions {self.commits.version_at(snapshots_begin_at)}"
            f" (of {snapshots_begin_at:{TIME}}) to {newest} (of {self.commits.of(newest):{TIME}}) "
            "can be read"
        )
