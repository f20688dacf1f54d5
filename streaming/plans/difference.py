"""The tables beside a plan file: which committed offsets are those of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from coordinator_state.replay.offsets import OffsetKey
from streaming.plans.backup import backup
from streaming.plans.committed_offsets import committed_offsets
from streaming.tables.reader import TableReader


class Outcome(str, Enum):
    """The result for one key."""

    EQUAL = "equal"
    DIFFERS = "differs"
    MISSING = "missing"
    """Only the file has the key."""
    EXTRA = "extra"
    """Only the tables have the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDifference:
    """A key with its offset in the file and in the tables."""

    group_id: str
    topic: str
    partition: int
    outcome: str
    file_offset: int | None
    tables_offset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDifference:
    """The comparison of a plan file with the tables, sorted by key."""

    rows: list[OffsetDifference]

    @property
    def is_equal(self) -> bool:
        """Whether every key is equal."""
        return all(row.outcome == Outcome.EQUAL for row in self.rows)

    @property
    def counts(self) -> dict[str, int]:
        """The number of keys of each outcome."""
        count_by_outcome = Counter(row.outcome for row in self.rows)
        return {outcome.value: count_by_outcome[outcome.value] for outcome in Outcome}

    @property
    def summary(self) -> str:
        """The comparison in one line."""
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in self.counts.items())
        return f"{'equal' if self.is_equal else 'different'}: {counts}"


def plan_difference(
    reader: TableReader, offsets: Mapping[OffsetKey, int], group_id: str | None = None
) -> PlanDifference:
    """Compare the committed offsets of a snapshot with those of a plan file.

    Args:
        reader: the snapshot.
        offsets: the offsets of the file.
        group_id: the group of a file of one group. Other partitions are not part of its plan. A
            file of several groups is for the whole cluster: what a backup would add is extra.
    """
    commit_by_key = committed_offsets(reader, None if group_id is None else [group_id])
    backed_up = backup(reader).offsets if group_id is None else {}
    committed = {
        key: commit.offset
        for key, commit in commit_by_key.items()
        if key in offsets or key in backed_up
    }
    return PlanDifference(
        rows=[
            OffsetDifference(
                group_id=key.group_id,
                topic=key.topic,
                partition=key.partition,
                outcome=_outcome(offsets.get(key), committed.get(key)).value,
                file_offset=offsets.get(key),
                tables_offset=committed.get(key),
            )
            for key in sorted({*offsets, *committed})
        ]
    )


def _outcome(in_file: int | None, in_tables: int | None) -> Outcome:
    if in_tables is None:
        return Outcome.MISSING
    if in_file is None:
        return Outcome.EXTRA
    return Outcome.EQUAL if in_file == in_tables else Outcome.DIFFERS
