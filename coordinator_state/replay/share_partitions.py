"""The replay of `__share_group_state`: the delivery state of each partition of a share group.

Theory
------
A share partition is a group, a topic id and a partition. Its state is a start offset and the
delivery state of the records from there on, as *state batches*: runs of offsets with one delivery
state and one delivery count. Two record types change it:

1. A *snapshot* replaces the state. Its state batches are stored as they are.
2. An *update* changes the state:
   - A leader epoch or start offset of -1 leaves the field unchanged.
   - The delivery complete count is replaced, even by -1.
   - The snapshot epoch, the state epoch and the timestamps stay those of the snapshot.
   - The state batches are combined with the stored ones, from the start offset on
     (`combine_state_batches`).
3. An update without a state before it becomes the state. It has no state epoch and no timestamps,
   so the state epoch is 0 and the timestamps are None (Kafka: 0).
4. A tombstone removes the state. Kafka writes tombstones of snapshots only, and its replay fails at
   a tombstone of an update. Here it removes the state, too.

These are the rules of 4.4.0. Earlier releases differ:

- Up to 4.3, the combiner can leave contiguous batches of one state apart. The state of each offset
  is the same.
- Before 4.2, records have no delivery complete count.
- 4.0 (early access) neither writes nor reads tombstones. The state epoch of rule 3 is -1 there.

Source: share-coordinator/src/main/java/org/apache/kafka/coordinator/share/
ShareCoordinatorShard.java (`handleShareSnapshot`, `handleShareUpdate`, `merge`),
ShareGroupOffset.java (`fromRecord`) and PersisterStateBatchCombiner.java at 4.0.0, 4.0.2, 4.1.2,
4.2.0, 4.3.1 and 4.4.0; KAFKA-20691 for the combiner of 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, Final

SHARE_SNAPSHOT: Final = 0
SHARE_UPDATE: Final = 1
"""The record types of `__share_group_state`."""

UNCHANGED: Final = -1
"""A leader epoch or start offset in an update that keeps the one before."""
UNKNOWN_COUNT: Final = -1
"""The delivery complete count of records before 4.2."""
DEFAULT_STATE_EPOCH: Final = 0
"""`ShareGroupOffset.DEFAULT_EPOCH`: the state epoch of an update without a snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBatch:
    """A run of record offsets of a user topic's partition with one delivery state.

    `delivery_state` is 0 AVAILABLE, 1 ACQUIRED (never stored), 2 ACKNOWLEDGED, 3 ARCHIVING (from
    share.version 2 on: waits for its write to a dead-letter topic, KIP-1191) or 4 ARCHIVED. A
    number that Kafka adds later is kept as it is.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartition:
    """The state of a share partition (Kafka: `ShareGroupOffset`).

    `start_offset` is -1 if it is not initialized, `delivery_complete_count` -1 if it is unknown.
    Times are milliseconds since the epoch. The create and write timestamps are None in the
    early-access layout of 4.0, which lacks them, and in a state without a snapshot.

    `delivery_timestamp_ms` is not in Kafka's state: the timestamp of the last record that changed
    the start offset, the delivery complete count or the state batches. Kafka's own timestamps do
    not show this. An update leaves them unchanged, and every five minutes the share coordinator
    writes a snapshot of an idle share partition with a new write timestamp
    (`ShareCoordinatorShard.snapshotColdPartitions`).
    """

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp_ms: int | None
    write_timestamp_ms: int | None
    state_batches: tuple[StateBatch, ...]
    delivery_timestamp_ms: int | None = field(default=None, compare=False)

    def has_delivery_of(self, other: SharePartition) -> bool:
        """Whether both have the same start offset, delivery complete count and state batches."""
        return (
            self.start_offset == other.start_offset
            and self.delivery_complete_count == other.delivery_complete_count
            and self.state_batches == other.state_batches
        )


def replay_share_record(
    before: SharePartition | None,
    record_type: int,
    value: Mapping[str, Any] | None,
    timestamp_ms: int | None = None,
) -> SharePartition | None:
    """The state of a share partition after a ShareSnapshot (0) or ShareUpdate (1) record.

    `value` has the fields by Kafka's names; None is a tombstone. Any other record type leaves the
    state unchanged, as in Kafka. `timestamp_ms` is that of the record.
    """
    if record_type not in (SHARE_SNAPSHOT, SHARE_UPDATE):
        return before
    if value is None:
        return None
    if record_type == SHARE_SNAPSHOT or before is None:
        after = _from_record(value)
    else:
        after = _merge(before, value)
    if before is not None and after.has_delivery_of(before):
        timestamp_ms = before.delivery_timestamp_ms
    return replace(after, delivery_timestamp_ms=timestamp_ms)


def combine_state_batches(
    batches: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Combine batches into the fewest batches that do not overlap, in the order of their offsets.

    Where batches overlap, the greater delivery count wins, then the greater delivery state. Offsets
    before `start_offset` are dropped. Offsets of no batch stay without one.

    >>> before = StateBatch(first_offset=0, last_offset=9, delivery_state=0, delivery_count=1)
    >>> update = StateBatch(first_offset=4, last_offset=5, delivery_state=2, delivery_count=1)
    >>> for batch in combine_state_batches([before, update], start_offset=3):
    ...     print(batch.first_offset, batch.last_offset, batch.delivery_state)
    3 3 0
    4 5 2
    6 9 0
    """
    combined: list[StateBatch] = []
    for batch in _winning_batches(batches, start_offset):
        last = combined[-1] if combined else None
        if last is not None and _continues(last, batch):
            combined[-1] = replace(last, last_offset=batch.last_offset)
        else:
            combined.append(batch)
    return tuple(combined)


def _from_record(value: Mapping[str, Any]) -> SharePartition:
    """The state of a snapshot, or of an update without a state before it."""
    return SharePartition(
        snapshot_epoch=value["snapshotEpoch"],
        state_epoch=value.get("stateEpoch", DEFAULT_STATE_EPOCH),
        leader_epoch=value["leaderEpoch"],
        start_offset=value["startOffset"],
        delivery_complete_count=value.get("deliveryCompleteCount", UNKNOWN_COUNT),
        create_timestamp_ms=value.get("createTimestamp"),
        write_timestamp_ms=value.get("writeTimestamp"),
        state_batches=tuple(_state_batches(value)),
    )


def _merge(before: SharePartition, update: Mapping[str, Any]) -> SharePartition:
    """The state after an update (Kafka: `ShareCoordinatorShard.merge`)."""
    leader_epoch, start_offset = update["leaderEpoch"], update["startOffset"]
    if leader_epoch == UNCHANGED:
        leader_epoch = before.leader_epoch
    if start_offset == UNCHANGED:
        start_offset = before.start_offset
    return replace(
        before,
        leader_epoch=leader_epoch,
        start_offset=start_offset,
        delivery_complete_count=update.get("deliveryCompleteCount", UNKNOWN_COUNT),
        state_batches=combine_state_batches(
            [*before.state_batches, *_state_batches(update)], start_offset
        ),
    )


def _state_batches(value: Mapping[str, Any]) -> Iterator[StateBatch]:
    for batch in value["stateBatches"]:
        yield StateBatch(
            first_offset=batch["firstOffset"],
            last_offset=batch["lastOffset"],
            delivery_state=batch["deliveryState"],
            delivery_count=batch["deliveryCount"],
        )


def _winning_batches(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    """The batch that wins, for each range of offsets in which no batch begins or ends."""
    kept = sorted(
        (batch for batch in batches if batch.last_offset >= start_offset),
        key=lambda batch: batch.first_offset,
    )
    # The batches that began, as a heap with the winning one first: (-count, -state, last offset).
    begun: list[tuple[int, int, int]] = []
    position = 0
    for first_offset, next_bound in pairwise(_bounds(kept, start_offset)):
        while position < len(kept) and kept[position].first_offset <= first_offset:
            batch = kept[position]
            heappush(begun, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            position += 1
        while begun and begun[0][2] < first_offset:
            heappop(begun)
        if begun:
            count, state, _ = begun[0]
            yield StateBatch(
                first_offset=first_offset,
                last_offset=next_bound - 1,
                delivery_state=-state,
                delivery_count=-count,
            )


def _bounds(batches: Sequence[StateBatch], start_offset: int) -> list[int]:
    """The offsets at which a batch begins, or after which it ends; none before `start_offset`."""
    firsts = {max(batch.first_offset, start_offset) for batch in batches}
    return sorted(firsts | {batch.last_offset + 1 for batch in batches})


def _continues(before: StateBatch, after: StateBatch) -> bool:
    """Whether two batches are one: contiguous, with the same state and count."""
    return (
        before.last_offset + 1 == after.first_offset
        and before.delivery_state == after.delivery_state
        and before.delivery_count == after.delivery_count
    )
