"""Committed and pending offsets, and the replay that computes them from a log.

Theory
------
A log partition is a sequence of records, each with a *record offset*. These records change offsets;
the key of an offset is (group, topic, partition):

* A *commit* sets the offset of a key; a *tombstone* (null value) removes the key.
* Either may be *transactional*: part of an open transaction of a producer id.
* A *marker* of a producer id ends its transaction: COMMIT or ABORT.

The state is two maps. `offsets` has the answers of OffsetFetch. `pending` has, per producer id, the
commits whose marker is not read yet.

1. A plain commit is stored at once and replaces any stored offset.
2. A transactional commit goes to the pending map of its producer id. It replaces an earlier pending
   commit of the same producer id and key.
3. COMMIT stores each pending commit of the producer id, unless the stored offset has a *greater
   record offset*. Record offsets decide, not the order of the markers (KAFKA-5247): the log cleaner
   keeps the greatest record offset, and a compacted log must load to the same state. ABORT drops
   the pending commits. After compaction, markers without pending commits are common. The producer
   epoch is ignored: a transaction of version 2 ends at a higher epoch (KIP-890).
4. A tombstone removes the stored offset at once. Its other effects depend on the loader:
   `coordinator` (Kafka 4, and 3.x with the new coordinator): it also removes the key from the
   pending maps of *all* producer ids, even if it is itself transactional and later aborted.
   `scala` (`doLoadGroupsAndOffsets`): a plain tombstone changes only the stored offsets, so a later
   COMMIT stores a pending commit again. A transactional one changes only the pending map of its own
   producer id, not the stored offsets.

The loaders differ in two more rules. For `coordinator` a record is transactional if its batch has a
producer id, for `scala` if its batch has the transactional attribute. `scala` treats every control
record except COMMIT as ABORT; `coordinator` ignores unknown types.

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
    """The loader's rules: Kafka 4's or those of Kafka 2 and 3."""

    COORDINATOR = "coordinator"
    SCALA = "scala"


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group_id: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The value of a commit, as a broker keeps it (Kafka: `OffsetAndMetadata`).

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
        """Make an offset from the columns of a row; columns that it lacks get their default."""
        return cls(**{name: row[name] for name in cls.__slots__ if name in row})


class Outcome(str, Enum):
    """The final outcome of a commit or tombstone."""

    COMMITTED = "committed"
    """It is plain, or its transaction ended with COMMIT; it was applied."""
    ABORTED = "aborted"
    """Its transaction ended with ABORT."""
    SUPERSEDED = "superseded"
    """The same producer id committed the key again before its transaction ended."""
    CLEARED = "cleared"
    """A tombstone removed the pending commit."""


class Resolved(NamedTuple):
    """A resolved commit: its key, its value and its outcome."""

    key: OffsetKey
    record: CommittedOffset
    outcome: Outcome


PendingOffsets = dict[int, dict[OffsetKey, CommittedOffset]]


@dataclass(slots=True)
class OffsetReplay:
    """The offsets of one log partition, replayed record by record in log order.

    Each method returns the pending commits that it resolved. History and accounting use them; the
    loader does not.
    """

    semantics: Semantics
    offsets: dict[OffsetKey, CommittedOffset] = field(default_factory=dict)
    pending: PendingOffsets = field(default_factory=dict)

    def is_transactional(self, producer_id: int, is_transactional: bool) -> bool:
        """Whether records of a batch with these header fields are transactional.

        Source: CoordinatorLoaderImpl.java at 4.2.0 passes the producer id on, and `replay` checks
        only that it is set; the Scala loader checks `batch.isTransactional`.
        """
        if self.semantics is Semantics.COORDINATOR:
            return producer_id != NO_PRODUCER_ID
        return is_transactional

    def replay_commit(
        self, key: OffsetKey, record: CommittedOffset, *, is_transactional: bool
    ) -> list[Resolved]:
        """Store a plain commit; add a transactional one to the pending commits."""
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
        """Remove a key by the loader's rules."""
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
