"""Replays group records: they create, change and delete groups of every type.

The rules of `coordinator`:

* An offset commit of an unknown group creates a simple group: classic, Empty, generation 0, no
  protocol. This holds even if the commit is transactional and later aborted. Tombstones of offsets
  do not delete the group.
* A GroupMetadata value replaces a group of any type; its tombstone deletes a group of any type. The
  group's offsets stay in the map and are visible again after the group's next commit.
* A value of a consumer, share or streams record creates a group of that type if the id is unknown.
  A record of a consumer group, and since 4.3 of a streams group, replaces a simple group, even if
  it is a tombstone.
* A tombstone for an unknown group has no effect.

If a coordinator would refuse to load a record, the replay continues. A value of another type than
the group's replaces the group; a tombstone of another type has no effect. The group keeps the
reason as its `replay_warning`.

`scala` builds groups only after the scan. It uses the last GroupMetadata value of each id. Every
other id with a committed or pending offset is a simple group. If the last GroupMetadata is a
tombstone and the group has only pending offsets, it logs the error "Unexpected unload of active
group" and changes nothing. The group has that text as its `replay_warning`.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupMetadataManager.java
(`replay`, `getOrMaybeCreatePersisted…Group`) and OffsetMetadataManager.java (`replay`) at 4.4.0;
GroupMetadataManager.scala (`loadGroup`) at 3.8.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from coordinator_state.replay.classic_groups import classic_group, refusal
from coordinator_state.replay.consumer_groups import ConsumerGroup
from coordinator_state.replay.groups import CONSUMER, STREAMS, Group, simple_group
from coordinator_state.replay.modern_groups import ModernGroup, ModernMember, Part
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from coordinator_state.replay.share_groups import ShareGroup
from coordinator_state.replay.streams_groups import StreamsGroup
from coordinator_state.wire.struct_reader import Fields

GroupState = Group | ModernGroup
"""The replayed state of a group; a classic group's state is its answer, `Group`."""

MODERN_GROUPS: Final[dict[int, type[ModernGroup]]] = {
    record_type: group
    for group in (ConsumerGroup, ShareGroup, StreamsGroup)
    for record_type in group.parts
}
"""Classes of groups by record type. Later brokers ignore type 9 of 4.0's early access."""

MOST_ARRAY_ELEMENTS: Final = 1_000_000
"""`Release.refuses_long_arrays`: the longest array that Kafka 4.4 reads."""

AskTopicNames = Callable[[Collection[str]], Mapping[str, str]]
"""Returns the known topic names for topic ids."""

OnWarning = Callable[[int, str], None]
"""Receives a record offset and the reason why a coordinator would refuse to load that record."""


class GroupRecord(NamedTuple):
    """A decoded record of a group; `name` is the member id or regular expression of its key.

    `value_bytes` is the size of the undecoded value.
    """

    record_type: int
    group_id: str
    name: str
    value: Fields | None
    record_offset: int
    value_bytes: int = 0


def rebuilt_group(
    group_id: str,
    records: Iterable[GroupRecord],
    semantics: Semantics,
    *,
    release: Release = NEWEST_RELEASE,
    committed: Collection[int],
    pending: Collection[int],
    was_simple: bool,
) -> GroupState | None:
    """Rebuild a group from its records in a compacted log, with tombstones; None if it is deleted.

    Args:
        group_id: the group.
        records: the last record of each of its keys, in log order.
        semantics: the loader's rules.
        release: the rules of group records under `coordinator` semantics.
        committed: the record offsets of its committed offsets.
        pending: the record offsets of its pending commits.
        was_simple: whether it was a simple group; its commit may have left the log since.
    """
    replay = GroupReplay(release=release)
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
    """Return the error that `scala` logs for a deleted group with pending commits only."""
    return f"Unexpected unload of active group {group_id}"


def active_group_unloaded(group_id: str, record_offset: int) -> Group:
    """Make the simple group that `scala` keeps for a deleted group with pending commits only."""
    warning = _warning(record_offset, unexpected_unload(group_id))
    return replace(simple_group(group_id), replay_warning=warning)


def described(state: GroupState, topic_names: Mapping[str, str] | None = None) -> Group:
    """Return the group as its coordinator describes it."""
    return state if isinstance(state, Group) else state.described(topic_names)


def name_of(key: Fields) -> str:
    """Return the member id or regular expression of a decoded group record key, or ""."""
    name: str = key.get("memberId") or key.get("regularExpression") or ""
    return name


@dataclass(slots=True)
class GroupReplay:
    """The groups of one log partition, replayed in log order by the rules of `coordinator`.

    `on_warning` may raise, as the strict loader's does. Groups passed in `states` are not modified;
    the replay changes a copy.
    """

    states: dict[str, GroupState] = field(default_factory=dict)
    release: Release = NEWEST_RELEASE
    on_warning: OnWarning = lambda _record_offset, _reason: None
    tombstones: dict[str, int] = field(default_factory=dict)
    """Record offsets of GroupMetadata tombstones without a later value, by group."""
    _own: set[str] = field(default_factory=set)

    @property
    def groups(self) -> dict[str, Group]:
        """All groups, as ListGroups and the Describe requests answer them."""
        return {group_id: described(state) for group_id, state in self.states.items()}

    def replay_offset_commit(self, group_id: str) -> None:
        """Create a simple group if the id is unknown; the outcome of the commit does not matter."""
        if group_id not in self.states:
            self.states[group_id] = simple_group(group_id)

    def replay(self, record: GroupRecord) -> None:
        """Replay a group record."""
        if record.record_type == GROUP_METADATA_TYPE:
            self._replay_classic(record)
        elif record.record_type in MODERN_GROUPS:
            kind = MODERN_GROUPS[record.record_type]
            if kind is not StreamsGroup or self.release.has_streams_groups:
                self._replay_modern(kind, record)
        # Each element needs at least one byte, so no other value has such an array.
        if record.value_bytes > MOST_ARRAY_ELEMENTS and self.release.refuses_long_arrays:
            self._check_arrays(record)

    def replay_in_order(
        self, group_id: str, commits: Iterable[int], records: Iterable[GroupRecord]
    ) -> None:
        """Replay a group's records and commits together, in the order of their record offsets."""
        events: list[tuple[int, GroupRecord | None]] = [
            *((record_offset, None) for record_offset in commits),
            *((record.record_offset, record) for record in records),
        ]
        for _, record in sorted(events, key=lambda event: event[0]):
            if record is None:
                self.replay_offset_commit(group_id)
            else:
                self.replay(record)

    def _check_arrays(self, record: GroupRecord) -> None:
        length = _longest_array(record.value)
        if record.group_id in self.states and length > MOST_ARRAY_ELEMENTS:
            reason = f"an array has {length:,} elements; Kafka 4.4 reads {MOST_ARRAY_ELEMENTS:,}"
            self._warn(record, reason)

    def _replay_classic(self, record: GroupRecord) -> None:
        if record.value is None:
            self.states.pop(record.group_id, None)
            self.tombstones[record.group_id] = record.record_offset
            return
        self.tombstones.pop(record.group_id, None)
        before = self.states.get(record.group_id)
        group = classic_group(
            record.group_id,
            record.value,
            record.record_offset,
            before if isinstance(before, Group) else None,
        )
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
        """Return the group of a record, created if needed; None if the record has no effect."""
        known = self.states.get(record.group_id)
        if isinstance(known, kind):
            return self._own_copy(known)
        is_replaceable = known is not None and self._is_replaceable(known, kind)
        is_clash = known is not None and not is_replaceable
        if record.value is None and not is_replaceable:
            if is_clash:
                self._warn(record, _wrong_type(record.group_id, kind))
            return None
        created = kind(
            group_id=record.group_id,
            release=self.release,
            created_record_offset=record.record_offset,
            record_offset=record.record_offset,
        )
        self._keep(created)
        if is_clash:
            self._warn(record, _wrong_type(record.group_id, kind))
        return created

    def _is_replaceable(self, known: GroupState, kind: type[ModernGroup]) -> bool:
        """Whether a group is simple, so that this type replaces it."""
        replaces = kind.group_type == CONSUMER or (
            kind.group_type == STREAMS and self.release.streams_replace_simple
        )
        return replaces and isinstance(known, Group) and known.is_simple

    def _own_copy(self, group: ModernGroup) -> ModernGroup:
        """Return the group if this replay created it, or else a copy that replaces it."""
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
    release: Release,
    created_record_offset: int,
    record_offset: int,
    replay_warning: str | None,
    members: Mapping[str, ModernMember],
    records: Iterable[GroupRecord],
) -> ModernGroup:
    """Restore a group from its described state and the last record of each of its keys.

    Each record from `created_record_offset` on sets one part of the group. Records of deleted
    members do not count. So `members` has only the current members, with `created_record_offset`,
    `epoch` and `state`.
    """
    (kind,) = {kind for kind in MODERN_GROUPS.values() if kind.group_type == group_type}
    restored = kind(
        group_id=group_id,
        release=release,
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


def _longest_array(value: Any) -> int:
    """The greatest number of elements of an array in a decoded value."""
    if isinstance(value, Mapping):
        return max(map(_longest_array, value.values()), default=0)
    if not isinstance(value, list):
        return 0
    return max(len(value), max(map(_longest_array, value), default=0))


def _warning(record_offset: int, reason: str) -> str:
    return f"record offset {record_offset}: {reason}"


def _wrong_type(group_id: str, kind: type[ModernGroup]) -> str:
    full_stop = "" if kind is ConsumerGroup else "."
    return f"Group {group_id} is not a {kind.group_type} group{full_stop}"
