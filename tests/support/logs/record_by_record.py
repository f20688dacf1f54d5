"""A log replayed record by record: the events and clients that any micro-batches must give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from coordinator_state.errors import DecodeError, UnknownRecordType
from coordinator_state.insight.group_events import GroupEvent, GroupEventReplay, Partitions
from coordinator_state.log.record import read_control_key
from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.records.record_types import GROUP_METADATA_TYPE, OFFSET_COMMIT_TYPES
from coordinator_state.records.serde import decode_key, decode_value
from coordinator_state.replay.group_replay import GroupRecord, GroupReplay, name_of
from coordinator_state.replay.groups import Group
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import CONTROL_TYPE_COMMIT, OffsetKey, Outcome, Semantics
from coordinator_state.replay.releases import Release

Client = tuple[str, str]
"""Client id and client host."""


@dataclass
class RecordByRecord:
    """The loader, and what happened between each record and the next.

    `clients` has the client of every commit that was pending once, by its record offset. `outcomes`
    has the outcome of every offset record that is not pending, and the record that decided it.
    """

    loader: ReferenceLoader
    event_replay: GroupEventReplay
    topic_names: Mapping[str, str]
    retention_ms: int
    events: list[GroupEvent] = field(default_factory=list)
    clients: dict[int, Client | None] = field(default_factory=dict)
    outcomes: dict[int, tuple[Outcome, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        buffer: bytes,
        semantics: Semantics,
        release: Release,
        topic_names: Mapping[str, str],
        retention_ms: int,
    ) -> RecordByRecord:
        """Replay batches of one record each."""
        loader = ReferenceLoader(semantics, release=release)
        event_replay = GroupEventReplay(GroupReplay(release=release))
        replayed = cls(loader, event_replay, topic_names, retention_ms)
        for batch in read_record_batches(buffer):
            assert isinstance(batch, RecordBatch)
            replayed._replay(batch)
        return replayed

    def _replay(self, batch: RecordBatch) -> None:
        loader = self.loader
        self._replay_group_record(batch)
        groups, offsets, pending = dict(loader.groups), dict(loader.offsets), self._pending()
        loader.load([batch])
        (record,) = batch.records
        for key in offsets.keys() | loader.offsets.keys():
            before, after = offsets.get(key), loader.offsets.get(key)
            if after is None and before is not None:
                event: GroupEvent | None = self.event_replay.replay_tombstone(
                    key,
                    before,
                    record.record_offset,
                    timestamp_ms=record.timestamp_ms,
                    retention_ms=self.retention_ms,
                )
                self._add(event)
            elif after is not None and after != before:
                self._add(
                    self.event_replay.replay_commit(
                        key, before, after, record.record_offset, lambda _ids: self.topic_names
                    )
                )
        still_pending = self._pending()
        for record_offset in still_pending.keys() - pending.keys():
            key = still_pending[record_offset]
            self.clients[record_offset] = self._owner(groups.get(key.group_id), key)
        for record_offset in pending.keys() - still_pending.keys():
            self.outcomes[record_offset] = (_outcome_of_pending(batch), record.record_offset)
        is_offset = (decoded := _decoded(batch)) and decoded.record_type in OFFSET_COMMIT_TYPES
        if is_offset and record.record_offset not in still_pending:
            self.outcomes[record.record_offset] = (Outcome.COMMITTED, record.record_offset)

    # --- events

    def _replay_group_record(self, batch: RecordBatch) -> None:
        record = _decoded(batch)
        if record is None:
            return
        if record.record_type in OFFSET_COMMIT_TYPES:
            if record.value is not None:
                self.event_replay.groups.replay_offset_commit(record.group_id)
        elif self._is_known(record):
            for event in self.event_replay.replay_record(record):
                self._add(event)

    def _is_known(self, record: GroupRecord) -> bool:
        is_scala = self.loader.semantics is Semantics.SCALA
        return not is_scala or record.record_type == GROUP_METADATA_TYPE

    def _add(self, event: GroupEvent | None) -> None:
        if event is not None:
            before, after = map(self._named, (event.assignment_before, event.assignment_after))
            self.events.append(event._replace(assignment_before=before, assignment_after=after))

    def _named(self, partitions: Partitions) -> Partitions:
        if partitions is None:
            return None
        return tuple(
            replace(assigned, topic=assigned.topic or self.topic_names.get(assigned.topic_id or ""))
            for assigned in partitions
        )

    # --- clients

    def _pending(self) -> dict[int, OffsetKey]:
        """The key of each pending offset, by its record offset."""
        return {
            commit.record_offset: key
            for commits in self.loader.pending.values()
            for key, commit in commits.items()
        }

    def _owner(self, group: Group | None, key: OffsetKey) -> Client | None:
        for member in () if group is None else group.members:
            for assigned in member.assignment or ():
                topic = self.topic_names.get(assigned.topic_id or "", assigned.topic)
                if (topic, assigned.partition) == (key.topic, key.partition):
                    return member.client_id, member.client_host
        return None


def _outcome_of_pending(batch: RecordBatch) -> Outcome:
    """The outcome of commits that the only record of a batch resolves."""
    (record,) = batch.records
    if batch.is_control:
        _, control_type = read_control_key(record.key or b"")
        return Outcome.COMMITTED if control_type == CONTROL_TYPE_COMMIT else Outcome.ABORTED
    return Outcome.CLEARED if record.value is None else Outcome.SUPERSEDED


def _decoded(batch: RecordBatch) -> GroupRecord | None:
    """The only record of a batch, if it can be decoded."""
    (record,) = batch.records
    if batch.is_control or record.key is None:
        return None
    try:
        key = decode_key(record.key)
        value = None if record.value is None else decode_value(key.record_type, record.value).fields
    except (DecodeError, UnknownRecordType):
        return None
    name = name_of(key.fields)
    return GroupRecord(key.record_type.id, key.group_id, name, value, record.record_offset)
