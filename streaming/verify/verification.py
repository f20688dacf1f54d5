"""Compares the answers of both sides; `verify` decides when to ask each side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator_state.replay.groups import CLASSIC
from streaming.verify.answer import KINDS, AnswerKey, Answers, Fields, Kind

REBALANCING_STATES = frozenset({"PreparingRebalance", "CompletingRebalance"})
"""States of a classic group only in memory: no record is written when they begin or end."""

_REBALANCING = "rebalancing (not in the log): only offsets are compared"
_UNDESCRIBED = (
    "without a topology (the coordinator cannot describe it): epochs and members are not compared"
)
_UNREPORTED_IF_NONE = frozenset({"group_type", "group_epoch", "assignment_epoch"})
"""Fields that the broker does not report if they are None; they are not compared then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field that differs; `field` is None if a whole answer is missing on one side."""

    key: AnswerKey
    field: str | None
    broker: Any
    tables: Any


@dataclass(slots=True, kw_only=True)
class Verification:
    """The equal, different and incomparable answers.

    Attributes:
        equal: the keys of equal answers.
        differing: the answers of broker and tables that differ.
        moving: the keys of answers that changed during the comparison, and are not compared.
        not_compared: why a group was compared only in part, by group id.
        behind: the number of record offsets that the tables lack, by log partition. If it is not
            empty, nothing was compared.
    """

    equal: set[AnswerKey] = field(default_factory=set)
    differing: dict[AnswerKey, tuple[Fields | None, Fields | None]] = field(default_factory=dict)
    moving: set[AnswerKey] = field(default_factory=set)
    not_compared: dict[str, str] = field(default_factory=dict)
    behind: dict[int, int] = field(default_factory=dict)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs and the tables have caught up."""
        return not self.differing and not self.behind

    @property
    def is_complete(self) -> bool:
        """Whether every answer was compared: none changed in every round."""
        return not self.moving and not self.behind

    @property
    def counts(self) -> dict[Kind, int]:
        """The number of equal answers of each kind."""
        count_by_kind = Counter(key.kind for key in self.equal)
        return {kind: count_by_kind[kind] for kind in KINDS}

    @property
    def differences(self) -> list[Difference]:
        """The differences by field, in the order of the keys."""
        return [
            difference
            for key, (broker, tables) in sorted(self.differing.items())
            for difference in _field_differences(key, broker, tables)
        ]

    @property
    def unreported_topics(self) -> set[str]:
        """Topics with an offset in the tables that the broker does not report."""
        return {
            key.topic for key, (broker, _) in self.differing.items() if broker is None and key.topic
        }

    @property
    def notes(self) -> list[str]:
        """The reasons why groups were compared only in part, with their number, one per line."""
        reasons = Counter(self.not_compared.values())
        return [
            f"{count} {'group' if count == 1 else 'groups'} {reason}"
            for reason, count in sorted(reasons.items())
        ]

    @property
    def difference_rows(self) -> list[dict[str, Any]]:
        """A row for each field that differs."""
        return [
            {
                "answer": str(difference.key),
                **difference.key._asdict(),
                "field": difference.field,
                "broker": difference.broker,
                "tables": difference.tables,
            }
            for difference in self.differences
        ]

    def to_json(self) -> dict[str, Any]:
        """The results as a JSON object."""
        return {
            "is_equal": self.is_equal,
            "is_complete": self.is_complete,
            "equal": self.counts,
            "differences": self.difference_rows,
            "moving": [key._asdict() for key in sorted(self.moving)],
            "behind": self.behind,
            "notes": self.notes,
        }

    @property
    def summary(self) -> str:
        """The verdict in one line."""
        if self.behind:
            return (
                f"behind: the tables lack {sum(self.behind.values())} record offsets in "
                f"{len(self.behind)} log partitions ({_named(self.behind)})"
            )
        counts = self.counts
        equal = (
            f"equal: {counts['group']} groups, {counts['offset']} committed offsets, "
            f"{counts['pending']} pending offsets, {counts['member']} members"
        )
        different = f"different: {len(self.differing)} answers; " if self.differing else ""
        moving = (
            f"; {len(self.moving)} answers changed in every round and were not compared"
            if self.moving
            else ""
        )
        return f"{different}{equal}{moving}"

    def forget(self, is_forgotten: Callable[[str], bool]) -> None:
        """Drop the results of some groups."""
        for keys in (self.equal, self.moving):
            keys -= {key for key in keys if is_forgotten(key.group_id)}
        for key in [key for key in self.differing if is_forgotten(key.group_id)]:
            del self.differing[key]
        for group in [group for group in self.not_compared if is_forgotten(group)]:
            del self.not_compared[group]

    def settle(self, compared: Collection[AnswerKey]) -> None:
        """Count changing answers as equal that an earlier round has compared."""
        settled = self.moving.intersection(compared)
        self.moving -= settled
        self.equal |= settled

    def add(self, newer: Verification) -> None:
        """Add the results of other groups, or of groups whose results were dropped."""
        self.equal |= newer.equal
        self.moving |= newer.moving
        self.differing |= newer.differing
        self.not_compared |= newer.not_compared


def compare(
    before: Answers, tables: Answers, after: Answers, meanwhile: Sequence[Answers] = ()
) -> Verification:
    """Compare the tables with the broker's answers before and after the tables were read.

    An answer that changed is equal if the tables give any of its values. `meanwhile` has the
    broker's answers from in between.
    """
    seen = Verification()
    given = (before, *meanwhile, after)
    rebalancing = _groups_that(before, _is_rebalancing) | _groups_that(after, _is_rebalancing)
    undescribed = _groups_that(before, _is_undescribed)
    for key in tables.keys() | {key for answers in given for key in answers}:
        answer = before.get(key)
        is_of_offset = key.kind in ("offset", "pending")
        is_in_memory = not is_of_offset and key.group_id in rebalancing
        if answer != after.get(key):
            values = (answers.get(key) for answers in given)
            is_one = any(_agree(value, tables.get(key)) for value in values)
            (seen.equal if is_one and not is_in_memory else seen.moving).add(key)
        elif is_in_memory:
            seen.not_compared[key.group_id] = _REBALANCING
        elif key.kind == "member" and key.group_id in undescribed:
            seen.not_compared[key.group_id] = _UNDESCRIBED
        elif _agree(answer, tables.get(key)):
            seen.equal.add(key)
        else:
            seen.differing[key] = (answer, tables.get(key))
    return seen


def _groups_that(answers: Answers, holds: Callable[[Fields], bool]) -> set[str]:
    return {
        key.group_id for key, fields in answers.items() if key.kind == "group" and holds(fields)
    }


def _is_rebalancing(group: Fields) -> bool:
    return group["state"] in REBALANCING_STATES


def _is_undescribed(group: Fields) -> bool:
    return group["group_type"] not in (CLASSIC, None) and group["group_epoch"] is None


def _agree(broker: Fields | None, tables: Fields | None) -> bool:
    if broker is None or tables is None:
        return broker is tables
    return not any(_unequal_fields(broker, tables))


def _unequal_fields(broker: Fields, tables: Fields) -> Iterable[str]:
    """The fields that differ; a broker before 3.8 does not report a group's type."""
    for name in broker.keys() | tables.keys():
        is_unreported = name in _UNREPORTED_IF_NONE and broker.get(name) is None
        if not is_unreported and broker.get(name) != tables.get(name):
            yield name


def _field_differences(
    key: AnswerKey, broker: Fields | None, tables: Fields | None
) -> list[Difference]:
    if broker is None or tables is None:
        return [Difference(key=key, field=None, broker=broker, tables=tables)]
    return [
        Difference(key=key, field=name, broker=broker.get(name), tables=tables.get(name))
        for name in sorted(_unequal_fields(broker, tables))
    ]


def _named(log_partitions: Iterable[int], most: int = 5) -> str:
    """The first few log partitions as text."""
    numbers = sorted(log_partitions)
    return ", ".join(map(str, numbers[:most])) + (", …" if len(numbers) > most else "")
