"""The states of a live classic group and the transitions between them.

    Empty ──────────────▶ PreparingRebalance ◀──────────── Stable
      ▲                        │     ▲                       ▲
      └── no members left ─────┤     └── a change ──┐        │ the leader's assignment is stored
                               └── all have joined ─▶ CompletingRebalance

Every state becomes Dead when the group is deleted. A log only contains Empty and Stable groups,
because rebalances exist only in the coordinator's memory.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/classic/
ClassicGroupState.java at 4.2.0; GroupMetadata.scala (`GroupState`) at 3.9.1, which has the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class ClassicState(str, Enum):
    """The states, with the names that brokers report."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY, _PREPARING, _COMPLETING, _STABLE, _DEAD = ClassicState

VALID_PREVIOUS_STATES: Final[Mapping[ClassicState, frozenset[ClassicState]]] = MappingProxyType(
    {
        _EMPTY: frozenset({_PREPARING}),
        _PREPARING: frozenset({_STABLE, _COMPLETING, _EMPTY}),
        _COMPLETING: frozenset({_PREPARING}),
        _STABLE: frozenset({_COMPLETING}),
        _DEAD: frozenset({_STABLE, _PREPARING, _COMPLETING, _EMPTY, _DEAD}),
    }
)
"""The states from which a group may enter each state."""
