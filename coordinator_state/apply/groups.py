"""Stage 4, groups: replays group records, commits and moves in log order, group by group.

The replay of a group gives both its state after the micro-batch and its events. Under `scala`
semantics the state has other rules: it is the last GroupMetadata value of the group. Without one,
the group exists while it has offsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from coordinator_state.apply.collected import (
    Collected,
    DecodedGroupRecord,
    GroupId,
    distinct_groups,
)
from coordinator_state.apply.moves import OffsetMove
from coordinator_state.apply.offsets import OffsetChanges
from coordinator_state.apply.pending_clients import Client, PendingCommit, new_commits
from coordinator_state.apply.state import ApplyContext, ApplyState
from coordinator_state.insight.group_events import (
    GroupEvent,
    GroupEventReplay,
    TopicPartition,
    owners,
    repeated_rebalance,
)
from coordinator_state.records.group_metadata_members import MembersOutline
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.group_replay import (
    GroupReplay,
    GroupState,
    active_group_unloaded,
    described,
)
from coordinator_state.replay.groups import NO_RECORD_OFFSET, GroupMember, simple_group
from coordinator_state.replay.offsets import CommittedOffset, OffsetKey, Semantics


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A group after the micro-batch (None if deleted), and the guard offset of the MERGE."""

    group: GroupState | None
    guard_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWarning:
    """A record that a broker would refuse to load."""

    log_partition: int
    record_offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedEvent:
    """An event with its log partition and timestamp."""

    log_partition: int
    timestamp_ms: int | None
    event: GroupEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanges:
    """The effect of a micro-batch on groups."""

    changes: Mapping[GroupId, GroupChange]
    events: Sequence[PlacedEvent]
    warnings: Sequence[ReplayWarning]
    clients: Sequence[tuple[int, int, Client]]
    """Log partition, record offset and client of each new pending offset."""


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit that may create its group."""

    record_offset: int


_Step = _Commit | DecodedGroupRecord | OffsetMove | PendingCommit


def apply_to_groups(
    collected: Collected,
    offsets: OffsetChanges,
    committed: pa.Table,
    moves: Sequence[OffsetMove],
    state: ApplyState,
    context: ApplyContext,
) -> GroupChanges:
    """Replay the groups of a micro-batch; `committed` has the committed offsets after it."""
    is_scala = context.semantics is Semantics.SCALA
    commits = {} if is_scala else collected.first_commits(state.groups)
    steps: dict[GroupId, list[_Step]] = defaultdict(list)
    for record in collected.group_records:
        if not is_scala or record.record_type == GROUP_METADATA_TYPE:
            steps[record.group].append(record)
    for group, record_offsets in commits.items():
        steps[group] += map(_Commit, record_offsets)
    for move in moves:
        steps[move.group].append(move)
    for group, pending_commits in new_commits(offsets.pending, state.pending).items():
        steps[group] += pending_commits
    replays = {
        group: _replayed(group, of_group, state, context) for group, of_group in steps.items()
    }
    if is_scala:
        changes = _scala_changes(collected, offsets, committed, state)
    else:
        of_replays = {group: replay.after for group, replay in replays.items()}
        touched = collected.records_of_groups.keys() | commits.keys()
        changes = _coordinator_changes(touched, collected, of_replays, state)
    return GroupChanges(
        changes=changes,
        events=[event for replay in replays.values() for event in replay.events],
        warnings=[warning for replay in replays.values() for warning in replay.warnings],
        clients=[
            (log_partition, record_offset, client)
            for (log_partition, _), replay in replays.items()
            for record_offset, client in replay.clients.items()
        ],
    )


@dataclass(slots=True)
class _Replay:
    """The replay of one group.

    A GroupMetadata value that repeats the members of the value before has at most one event, which
    needs no replay. The group is replayed up to it (`_catch_up`) when its state is needed.
    """

    group: GroupId
    replay: GroupEventReplay
    context: ApplyContext
    events: list[PlacedEvent] = field(default_factory=list)
    warnings: list[ReplayWarning] = field(default_factory=list)
    clients: dict[int, Client] = field(default_factory=dict)
    """The client of each new pending offset, by its record offset."""
    _owners: Mapping[TopicPartition, GroupMember] | None = None
    """The owners of partitions; None after a record that may change them."""
    _offsets: dict[OffsetKey, CommittedOffset | None] = field(default_factory=dict)
    _outline: MembersOutline | None = None
    """Of the last GroupMetadata value, if no other group record follows it."""
    _repeat: DecodedGroupRecord | None = None
    """The last value, if it is not replayed yet."""

    @property
    def after(self) -> GroupState | None:
        """The group after the last step."""
        self._catch_up()
        return self.replay.groups.states.get(self.group[1])

    def step(self, step: _Step) -> None:
        """Replay one step."""
        match step:
            case _Commit():
                self.replay.groups.replay_offset_commit(self.group[1])
            case DecodedGroupRecord():
                self._owners = None
                self._record(step)
            case PendingCommit():
                self.clients[step.record_offset] = self._owner(step.topic, step.partition)
            case OffsetMove():
                event = self._move(step)
                if event is not None:
                    self._add_event(event, step.timestamp_ms)

    def _owner(self, topic: str, partition: int) -> Client:
        if self._owners is None:
            state = self.after
            names = self.context.topic_names
            self._owners = {} if state is None else owners(described(state, names))
        member = self._owners.get((topic, partition))
        return (None, None) if member is None else (member.client_id, member.client_host)

    def _record(self, record: DecodedGroupRecord) -> None:
        before, self._outline = self._outline, None
        if record.record_type == GROUP_METADATA_TYPE and record.raw_value is not None:
            self._outline = MembersOutline.of(record.raw_value)
        if before is not None and self._outline is not None and self._outline.repeats(before):
            self._repeat = record
            epochs = before.generation, self._outline.generation
            members = self.replay.groups.states[record.group_id].members
            event = repeated_rebalance(record.group_id, record.record_offset, len(members), *epochs)
            if event is not None:
                self._add_event(event, record.record_timestamp_ms)
            return
        self._catch_up()
        warnings_before = len(self.warnings)
        if self.context.with_history:
            for event in self.replay.replay_record(record.replayed):
                self._add_event(event, record.record_timestamp_ms)
        else:
            self.replay.groups.replay(record.replayed)
        if len(self.warnings) > warnings_before:
            # Each repetition has the warning, too.
            self._outline = None

    def _catch_up(self) -> None:
        if self._repeat is not None:
            self.replay.groups.replay(self._repeat.replayed)
            self._repeat = None

    def _add_event(self, event: GroupEvent, timestamp_ms: int | None) -> None:
        placed = PlacedEvent(log_partition=self.group[0], timestamp_ms=timestamp_ms, event=event)
        self.events.append(placed)

    def _move(self, move: OffsetMove) -> GroupEvent | None:
        self._catch_up()
        before = self._offsets.get(move.key, move.before)
        if move.after is None:
            self._offsets[move.key] = None
            if before is None:
                return None
            return self.replay.replay_tombstone(
                move.key,
                before,
                move.record_offset,
                timestamp_ms=move.timestamp_ms,
                retention_ms=self.context.offsets_retention_ms,
            )
        if before is not None and before.record_offset > move.after.record_offset:
            self._offsets[move.key] = before
            return None
        self._offsets[move.key] = move.after
        names = self.context.topic_names
        return self.replay.replay_commit(
            move.key, before, move.after, move.record_offset, lambda _topic_ids: names
        )


def _replayed(
    group: GroupId, steps: list[_Step], state: ApplyState, context: ApplyContext
) -> _Replay:
    """Replay all steps of a group. Steps with equal record offsets keep their order."""
    log_partition, group_id = group
    warnings: list[ReplayWarning] = []

    def warn(record_offset: int, reason: str) -> None:
        warnings.append(
            ReplayWarning(log_partition=log_partition, record_offset=record_offset, reason=reason)
        )

    before = state.groups.get(group)
    groups = GroupReplay(
        {} if before is None else {group_id: before}, release=context.release, on_warning=warn
    )
    replay = _Replay(group, GroupEventReplay(groups), context, warnings=warnings)
    for step in sorted(steps, key=lambda step: step.record_offset):
        replay.step(step)
    return replay


def _coordinator_changes(
    touched: set[GroupId],
    collected: Collected,
    after: Mapping[GroupId, GroupState | None],
    state: ApplyState,
) -> dict[GroupId, GroupChange]:
    changes = {}
    for group in touched:
        group_state = after[group]
        if group_state is None or group_state is not state.groups.get(group):
            records = collected.records_of_groups.get(group)
            guard_offset = records[-1].record_offset if records else NO_RECORD_OFFSET
            changes[group] = GroupChange(group=group_state, guard_offset=guard_offset)
    return changes


def _scala_changes(
    collected: Collected, offsets: OffsetChanges, committed: pa.Table, state: ApplyState
) -> dict[GroupId, GroupChange]:
    """The changed groups: each by its last GroupMetadata value, else by its offsets."""
    changes: dict[GroupId, GroupChange] = {}
    guard_offsets: dict[GroupId, int] = {}
    tombstones = dict(state.tombstones)
    for group, records in collected.records_of_groups.items():
        own = [record for record in records if record.record_type == GROUP_METADATA_TYPE]
        if not own:
            continue
        tombstones.pop(group, None)
        replay = GroupReplay()
        replay.replay(own[-1].replayed)
        group_state = replay.states.get(group[1])
        if group_state is None:
            guard_offsets[group] = tombstones[group] = own[-1].record_offset
        else:
            changes[group] = GroupChange(group=group_state, guard_offset=own[-1].record_offset)
    for group in (collected.groups_with_offsets | offsets.resolved_groups) - changes.keys():
        before = state.groups.get(group)
        if group not in guard_offsets and (
            before is None or before.record_offset == NO_RECORD_OFFSET
        ):
            guard_offsets[group] = NO_RECORD_OFFSET
    with_pending = distinct_groups(offsets.pending)
    with_committed = distinct_groups(committed)
    for group, guard_offset in guard_offsets.items():
        after: GroupState | None = None
        if group in with_committed:
            after = simple_group(group[1])
        elif group in with_pending:
            is_unloaded = group in tombstones
            after = (
                active_group_unloaded(group[1], tombstones[group])
                if is_unloaded
                else simple_group(group[1])
            )
        if state.groups.get(group) != after or group in collected.records_of_groups:
            changes[group] = GroupChange(group=after, guard_offset=guard_offset)
    return changes
