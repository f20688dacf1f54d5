"""Backups: the committed offsets of all groups, for a plan file that restores them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from coordinator_state.insight.group_status import count_text
from coordinator_state.insight.kafka_commands import cannot_be_reset
from coordinator_state.replay.offsets import OffsetKey
from streaming.plans.committed_offsets import committed_offsets, group_types, place_of
from streaming.plans.group_plan import OTHER_TOOLS
from streaming.plans.sampled_logs import sampled_logs
from streaming.tables.reader import TableReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """The offsets of a backup, and a sentence for whatever is not in it."""

    offsets: dict[OffsetKey, int]
    left_out: list[str]

    @property
    def group_ids(self) -> list[str]:
        """The groups of the backup, sorted."""
        return sorted({key.group_id for key in self.offsets})


def backup(reader: TableReader, newest: TableReader | None = None) -> Backup:
    """The committed offsets of the groups of a snapshot that Kafka's tool can set again.

    Groups of other types have other tools. Offsets of deleted topics are left out, because the tool
    would then set none of the group's offsets. `newest` is the newest snapshot, which knows the
    deleted topics; None if `reader` is it.
    """
    now = newest or reader
    types = group_types(reader)
    offset_by_key = {
        key: committed.offset
        for key, committed in committed_offsets(reader).items()
        if types.get(key.group_id) not in OTHER_TOOLS
    }
    logs = sampled_logs(now, map(place_of, offset_by_key), now.moment)
    gone = {place for place, log in logs.items() if log is None}
    is_gone = {key for key in offset_by_key if place_of(key) in gone}
    unnamed = {
        key.group_id: reason for key in offset_by_key if (reason := cannot_be_reset(key.group_id))
    }
    counts = Counter(types.values())
    left_out = [
        f"Not in the file: {count_text(counts[kind], f'{kind} group')} (use {tool})"
        for kind, tool in OTHER_TOOLS.items()
        if counts[kind]
    ]
    left_out += [f"Not in the file: group '{group_id}', {why}" for group_id, why in unnamed.items()]
    if is_gone:
        topics = ", ".join(sorted({key.topic for key in is_gone}))
        left_out.append(
            f"Not in the file: {count_text(len(is_gone), 'offset')} of deleted topics: {topics}"
        )
    return Backup(
        offsets={
            key: offset
            for key, offset in sorted(offset_by_key.items())
            if key not in is_gone and key.group_id not in unnamed
        },
        left_out=left_out,
    )


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
