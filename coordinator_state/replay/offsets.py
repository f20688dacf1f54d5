"""Committed and pending offsets, and the rules by which a log turns into them.

Theory
------
The log of one partition of `__consumer_offsets` is a sequence of records, each at a *record
offset*. Three kinds bear on offsets, all about one key (group, topic, partition):

* a *commit* carries an offset; a *tombstone* (null value) takes the key away;
* either may be *transactional*, that is, part of an open transaction of a producer id;
* an *end transaction marker* of a producer id ends its transaction: COMMIT or ABORT.

State is two maps. `offsets` holds what OffsetFetch answers. `pending` holds, per producer id, the
commits whose marker has not come.

1. A plain commit is stored at once, whatever was there.
2. A transactional commit waits in the pending map of its producer id; a later one of the same
   producer id and key takes its place.
3. COMMIT stores each waiting commit of the producer id, unless what is stored comes from a
   *greater record offset*: the place in the log decides, not the order of the markers
   (KAFKA-5247), because the log cleaner keeps the greatest record offset, and a compacted log must
   load to the same state. ABORT drops them. A marker of a producer id with nothing waiting is
   usual after compaction. The producer epoch decides nothing: a transaction of version 2 ends at a
   higher epoch (KIP-890).
4. A tombstone removes the stored offset at once. What else it does is where the two loaders differ.
   `coordinator` (Kafka 4, and 3.x with the new coordinator): it also removes the key from the
   pending map of *every* producer id, and it does so even if it is itself transactional and later
   aborted.
   `scala` (`doLoadGroupsAndOffsets`): a plain tombstone touches only the stored offsets, so a
   COMMIT after it brings a waiting commit back; a transactional one touches only its own
   producer's pending map.

Which records are transactional differs too: `coordinator` asks whether the batch has a producer id,
`scala` whether its transactional attribute is set. And `scala` takes every control record but
COMMIT for an ABORT, where `coordinator` ignores types it does not know.

Source:
group-coordinator/src/main/java/org/apache/kafka/coordinator/group/OffsetMetadataManager.java
(`replay`, `replayEndTransactionMarker`) at 4.2.0; core/src/main/scala/kafka/coordinator/group/
GroupMetadataManager.scala (`doLoadGroupsAndOffsets`) at 3.8.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from coordinator_state.records.record_types import NO_PRODUCER_ID

CONTROL_TYPE_ABORT: Final = 0
CONTROL_TYPE_COMMIT: Final = 1


class Semantics(str, Enum):
    """Which loader's rules apply."""

    COORDINATOR = "coordinator"
    SCALA = "scala"


class OffsetKey(NamedTuple):
    """What an offset is committed for."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """An offset as a group committed it (Kafka: `OffsetAndMetadata`).

    Times are milliseconds since the epoch. `producer_id` is None unless the commit was
    transactional.
    """

    committed_offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: str | None = None
    record_offset: int
    producer_id: int | None = None
    producer_epoch: int | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> CommittedOffset:
        """An offset from a row whose columns have these names; defaults for those it lacks."""
        return cls(**{name: row[name] for name in cls.__slots__ if name in row})


class Outcome(str, Enum):
    """What became of a commit or tombstone, known once nothing later can change it."""

    COMMITTED = "committed"
    """Plain, or ended by COMMIT: it took part in the state with its record offset."""
    ABORTED = "aborted"
    """Ended by ABORT."""
    SUPERSEDED = "superseded"
    """The same producer committed the key again before its transaction ended."""
    CLEARED = "cleared"
    """A tombstone removed it while it waited."""


class Resolved(NamedTuple):
    """A record whose outcome became known, and the record offset that made it known."""

    key: OffsetKey
    record: CommittedOffset
    outcome: Outcome


PendingOffsets = dict[int, dict[OffsetKey, CommittedOffset]]


@dataclass(slots=True)
class OffsetReplay:
    """The offsets of one log partition, replayed record by record in log order.

    Each method returns the waiting records whose outcome it decided; the loader has no use for
    them, history and accounting do.
    """

    semantics: Semantics
    offsets: dict[OffsetKey, CommittedOffset] = field(default_factory=dict)
    pending: PendingOffsets = field(default_factory=dict)

    def is_transactional(self, producer_id: int, is_transactional: bool) -> bool:
        """Whether a record of such a batch waits for a marker.

        Source: CoordinatorLoaderImpl.java at 4.2.0 passes the producer id on and `replay` asks only
        whether there is one; the Scala loader asks `batch.isTransactional`.
        """
        if self.semantics is Semantics.COORDINATOR:
            return producer_id != NO_PRODUCER_ID
        return is_transactional

    def replay_commit(
        self, key: OffsetKey, record: CommittedOffset, *, is_transactional: bool
    ) -> list[Resolved]:
        """Store a plain commit, or let a transactional one wait."""
        if not is_transactional:
            self.offsets[key] = record
            return []
        producer_id = _producer_id(record)
        pending = self.pending.setdefault(producer_id, {})
        replaced = pending.get(key)
        pending[key] = record
        return [] if replaced is None else [Resolved(key, replaced, Outcome.SUPERSEDED)]

    def replay_tombstone(
        self, key: OffsetKey, *, producer_id: int = NO_PRODUCER_ID, is_transactional: bool = False
    ) -> list[Resolved]:
        """Remove a key, by the rule of the loader."""
        if self.semantics is Semantics.SCALA:
            if is_transactional:
                return self._clear_pending(key, (producer_id,))
            self.offsets.pop(key, None)
            return []
        self.offsets.pop(key, None)
        return self._clear_pending(key, tuple(self.pending))

    def replay_end_transaction_marker(self, producer_id: int, control_type: int) -> list[Resolved]:
        """End the transaction of a producer id."""
        is_commit = control_type == CONTROL_TYPE_COMMIT
        if (
            self.semantics is Semantics.COORDINATOR
            and not is_commit
            and control_type != CONTROL_TYPE_ABORT
        ):
            return []
        pending = self.pending.pop(producer_id, {})
        if is_commit:
            for key, record in pending.items():
                stored = self.offsets.get(key)
                if stored is None or record.record_offset > stored.record_offset:
                    self.offsets[key] = record
        outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        return [Resolved(key, record, outcome) for key, record in pending.items()]

    def _clear_pending(self, key: OffsetKey, producer_ids: Iterable[int]) -> list[Resolved]:
        cleared = []
        for producer_id in producer_ids:
            pending = self.pending.get(producer_id, {})
            record = pending.pop(key, None)
            if record is not None:
                cleared.append(Resolved(key, record, Outcome.CLEARED))
                if not pending:
                    del self.pending[producer_id]
        return cleared


def _producer_id(record: CommittedOffset) -> int:
    return NO_PRODUCER_ID if record.producer_id is None else record.producer_id
