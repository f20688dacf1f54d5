"""The rules by which records make, change and unmake groups, whatever their type.

Those of `coordinator`:

* an offset commit of an unknown group makes a simple classic group: Empty, generation 0, no
  protocol. It does so even when it is transactional and later aborted, and offset tombstones never
  take it away;
* a GroupMetadata value replaces whatever the id named; its tombstone removes the group of any type,
  while its offsets stay in the offsets map and show again with the next offset commit of the group;
* a value of any consumer, share or streams record makes a group of that type of an unknown id. A
  simple group gives way to a consumer or a streams group, even for a tombstone;
* a tombstone of an unknown group is nothing.

Where a coordinator would refuse to load a record, the replay goes on: a value of another type than
the group's makes a new group in its place, a tombstone of another type changes nothing, and the
group keeps the reason as its `replay_warning`.

`scala` builds groups only after the scan: the last GroupMetadata value of each id, and every other
id that has an offset or a still waiting one, as a simple group. Where only a waiting one is left of
a group whose GroupMetadata is a tombstone, it logs "Unexpected unload of active group", an error
that leaves all as it is: the group has it as its `replay_warning`.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`replay`, `getOrMaybeCreatePersisted…Group`) and OffsetMetadataManager.java (`replay`) at 4.2.0;
GroupMetadataManager.scala (`loadGroup`) at 3.8.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.classic_groups import classic_group, refusal
from coordinator_state.replay.consumer_groups import ConsumerGroup
from coordinator_state.replay.groups import SHARE, Group, simple_group
from coordinator_state.replay.modern_groups import ModernGroup, ModernMember, Part
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.share_groups import ShareGroup
from coordinator_state.replay.streams_groups import StreamsGroup
from coordinator_state.wire.struct_reader import Fields

GroupState = Group | ModernGroup
"""What is known of a group: a classic one is its own answer."""

MODERN_GROUPS: Final[dict[int, type[ModernGroup]]] = {
    record_type: group
    for group in (ConsumerGroup, ShareGroup, StreamsGroup)
    for record_type in group.parts
}
"""Kinds of group by record type. Type 9, of 4.0's early access, says nothing to later brokers."""

AskTopicNames = Callable[[Collection[str]], Mapping[str, str]]
"""Names of the cluster's topics by topic id, as far as they are known."""

OnWarning = Callable[[int, str], None]
"""Takes the record offset and the reason why a coordinator would not load it."""


class GroupRecord(NamedTuple):
    """A record of a group, decoded; `name` is the member id or regular expression of its key."""

    record_type: int
    group_id: str
    name: str
    value: Fields | None
    record_offset: int


def rebuilt_group(
    group_id: str,
    records: Iterable[GroupRecord],
    semantics: Semantics,
    *,
    committed: Collection[int],
    pending: Collection[int],
    was_simple: bool,
) -> GroupState | None:
    """A group from what a compacted log has of it, tombstones included; None where there is none.

    Args:
        group_id: the group.
        records: the last record of each of its keys, in log order.
        semantics: the loader whose rules hold.
        committed: the record offsets of its committed offsets.
        pending: the record offsets of its pending transactional offsets.
        was_simple: whether it was known as a simple group, by a commit that may be gone since.
    """
    replay = GroupReplay()
    if semantics is Semantics.SCALA:
        for record in records:
            if record.record_type == GROUP_METADATA_TYPE:
                replay.replay(record)
        if group_id in replay.tombstones and pending and not committed:
            return active_group_unloaded(group_id, replay.tombstones[group_id])
        has_offsets = bool(committed or pending)
        return replay.states.get(group_id) or (simple_group(group_id) if has_offsets else None)
    replay.replay_in_order(group_id, [*committed, *pending], records)
    return replay.states.get(group_id) or (simple_group(group_id) if was_simple else None)


def unexpected_unload(group_id: str) -> str:
    """What the old loader logs of a group of which a tombstone and waiting offsets are left."""
    return f"Unexpected unload of active group {group_id}"


def active_group_unloaded(group_id: str, record_offset: int) -> Group:
    """The simple group of `scala` of which a tombstone and waiting offsets are left."""
    warning = _warning(record_offset, unexpected_unload(group_id))
    return replace(simple_group(group_id), replay_warning=warning)


def described(state: GroupState, topic_names: Mapping[str, str] | None = None) -> Group:
    """The group as its coordinator answers for it."""
    return state if isinstance(state, Group) else state.described(topic_names)


def name_of(key: Fields) -> str:
    """The member id or regular expression of a decoded group record key, "" without."""
    name: str = key.get("memberId") or key.get("regularExpression") or ""
    return name


@dataclass(slots=True)
class GroupReplay:
    """The groups of one log partition, replayed in log order by the rules of `coordinator`.

    `on_warning` may raise, as strict rules do; a group that is given in `states` stays as it is.
    """

    states: dict[str, GroupState] = field(default_factory=dict)
    on_warning: OnWarning = lambda _record_offset, _reason: None
    tombstones: dict[str, int] = field(default_factory=dict)
    """Record offsets of the GroupMetadata tombstones that no value followed."""
    _own: set[str] = field(default_factory=set)

    @property
    def groups(self) -> dict[str, Group]:
        """Every group, as ListGroups and the Describe requests know it."""
        return {group_id: described(state) for group_id, state in self.states.items()}

    def replay_offset_commit(self, group_id: str) -> None:
        """An offset commit of any outcome makes a simple group of an unknown id."""
        if group_id not in self.states:
            self.states[group_id] = simple_group(group_id)

    def replay(self, record: GroupRecord) -> None:
        """Replay a group record."""
        if record.record_type == GROUP_METADATA_TYPE:
            self._replay_classic(record)
        elif record.record_type in MODERN_GROUPS:
            self._replay_modern(MODERN_GROUPS[record.record_type], record)

    def replay_in_order(
        self, group_id: str, commits: Iterable[int], records: Iterable[GroupRecord]
    ) -> None:
        """Replay a group's records, and between them commits of offsets by their record offset."""
        events: list[tuple[int, GroupRecord | None]] = [
            *((record_offset, None) for record_offset in commits),
            *((record.record_offset, record) for record in records),
        ]
        for _, record in sorted(events, key=lambda event: event[0]):
            if record is None:
                self.replay_offset_commit(group_id)
            else:
                self.replay(record)

    def _replay_classic(self, record: GroupRecord) -> None:
        if record.value is None:
            self.states.pop(record.group_id, None)
            self.tombstones[record.group_id] = record.record_offset
            return
        self.tombstones.pop(record.group_id, None)
        group = classic_group(record.group_id, record.value, record.record_offset)
        self.states[record.group_id] = group
        reason = refusal(record.group_id, record.value)
        if reason is not None:
            self._warn(record, reason)

    def _replay_modern(self, kind: type[ModernGroup], record: GroupRecord) -> None:
        group = self._group_for(kind, record)
        if group is None:
            return
        group.replay(
            record.record_type,
            record.name,
            record.value,
            record.record_offset,
            lambda reason: self._warn(record, reason),
        )
        if group.is_deleted:
            del self.states[record.group_id]

    def _group_for(self, kind: type[ModernGroup], record: GroupRecord) -> ModernGroup | None:
        """The group that a record is of, made where there is none; None for nothing to do."""
        known = self.states.get(record.group_id)
        if isinstance(known, kind):
            return self._own_copy(known)
        gives_way = known is not None and _gives_way(known, kind)
        is_clash = known is not None and not gives_way
        if record.value is None and not gives_way:
            if is_clash:
                self._warn(record, _wrong_type(record.group_id, kind))
            return None
        made = kind(
            group_id=record.group_id,
            created_record_offset=record.record_offset,
            record_offset=record.record_offset,
        )
        self._keep(made)
        if is_clash:
            self._warn(record, _wrong_type(record.group_id, kind))
        return made

    def _own_copy(self, group: ModernGroup) -> ModernGroup:
        """The group itself if this replay made it, else a copy that is kept in its place."""
        if group.group_id not in self._own:
            group = group.copy()
            self._keep(group)
        return group

    def _keep(self, group: ModernGroup) -> None:
        self.states[group.group_id] = group
        self._own.add(group.group_id)

    def _warn(self, record: GroupRecord, reason: str) -> None:
        self.on_warning(record.record_offset, reason)
        state = self.states[record.group_id]
        warning = _warning(record.record_offset, reason)
        if isinstance(state, Group):
            self.states[record.group_id] = replace(state, replay_warning=warning)
        else:
            self._own_copy(state).replay_warning = warning


def restored_group(
    group_id: str,
    group_type: str,
    *,
    created_record_offset: int,
    record_offset: int,
    replay_warning: str | None,
    members: Mapping[str, ModernMember],
    records: Iterable[GroupRecord],
) -> ModernGroup:
    """A group again from what its answer says and the last record of each of its keys.

    Every record of a group of this kind from `created_record_offset` on stands for one part of it,
    but those of members that are gone; so of `members` only those are named that it has, with
    `created_record_offset`, `epoch` and `state`.
    """
    (kind,) = {kind for kind in MODERN_GROUPS.values() if kind.group_type == group_type}
    restored = kind(
        group_id=group_id,
        created_record_offset=created_record_offset,
        record_offset=record_offset,
        replay_warning=replay_warning,
    )
    restored.members.update(members)
    for record in sorted(records, key=lambda record: record.record_offset):
        part = kind.parts.get(record.record_type)
        if part is None or record.record_offset < created_record_offset:
            continue
        if part in (Part.MEMBER, Part.CURRENT):
            member = members.get(record.name)
            if member is None or record.record_offset < member.created_record_offset:
                continue
        restored.replay(
            record.record_type,
            record.name,
            record.value,
            record.record_offset,
            lambda _reason: None,
        )
    restored.record_offset = record_offset
    return restored


def _warning(record_offset: int, reason: str) -> str:
    return f"record offset {record_offset}: {reason}"


def _wrong_type(group_id: str, kind: type[ModernGroup]) -> str:
    full_stop = "" if kind is ConsumerGroup else "."
    return f"Group {group_id} is not a {kind.group_type} group{full_stop}"


def _gives_way(known: GroupState, kind: type[ModernGroup]) -> bool:
    """A group that only offsets stand behind gives way, but not to a share group."""
    return isinstance(known, Group) and known.is_simple and kind.group_type != SHARE
