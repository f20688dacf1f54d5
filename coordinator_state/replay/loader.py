"""The reference loader: from the batches of one log partition to its coordinator's answers.

It reads all records in log order with the reference decoders and keeps all state in dictionaries,
as a broker does. It is slow and simple. Tests compare the kernel, the source and the apply step
with it.

If a broker's load would fail at a record, it continues and keeps the reason: in `warnings` if it
cannot decode the record, in `replay_warnings` if the record contradicts the group. With
`strict=True` it raises `ReplayError` instead.

Source: coordinator-common/src/main/java/org/apache/kafka/coordinator/common/runtime/
CoordinatorLoaderImpl.java at 4.4.0; GroupMetadataManager.scala (`doLoadGroupsAndOffsets`) at 3.8.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from coordinator_state.errors import DecodeError, ReplayError, UnknownRecordType
from coordinator_state.log.record import read_control_key
from coordinator_state.log.record_batch import CorruptBatch, RecordBatch
from coordinator_state.records.offset_commit_value import offset_commit_values
from coordinator_state.records.record_types import (
    GROUP_METADATA_TYPE,
    LEGACY_OFFSET_COMMIT_TYPE,
    NO_PRODUCER_ID,
    OFFSET_COMMIT_TYPES,
)
from coordinator_state.records.serde import DecodedKey, DecodedValue, decode_key, decode_value
from coordinator_state.replay.group_replay import (
    GroupRecord,
    GroupReplay,
    active_group_unloaded,
    name_of,
    unexpected_unload,
)
from coordinator_state.replay.groups import SHARE, Group, simple_group
from coordinator_state.replay.offsets import (
    CommittedOffset,
    OffsetKey,
    OffsetReplay,
    PendingOffsets,
    Semantics,
)
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from coordinator_state.wire.primitives import read_int16
from coordinator_state.wire.struct_reader import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadWarning:
    """A record that the loader skipped or a broker would refuse to load, and the reason."""

    record_offset: int
    reason: str


@dataclass(slots=True)
class ReferenceLoader:
    """Replays one log partition by the rules of `semantics` and, for group records, `release`."""

    semantics: Semantics = Semantics.COORDINATOR
    strict: bool = False
    release: Release = NEWEST_RELEASE
    warnings: list[LoadWarning] = field(default_factory=list)
    replay_warnings: list[LoadWarning] = field(default_factory=list)
    _offsets: OffsetReplay = field(init=False)
    _groups: GroupReplay = field(init=False)

    def __post_init__(self) -> None:
        self._offsets = OffsetReplay(self.semantics)
        self._groups = GroupReplay(release=self.release, on_warning=self._warn_of_replay)

    # --- the coordinator's answers

    @property
    def offsets(self) -> dict[OffsetKey, CommittedOffset]:
        """All committed offsets, including those of deleted groups."""
        return self._offsets.offsets

    @property
    def pending(self) -> PendingOffsets:
        """Pending commits by producer id."""
        return self._offsets.pending

    @property
    def groups(self) -> dict[str, Group]:
        """All groups, as ListGroups and DescribeGroups answer them."""
        if self.semantics is Semantics.COORDINATOR:
            return self._groups.groups
        committed = {key.group_id for key in self.offsets}
        pending = {key.group_id for keys in self.pending.values() for key in keys}
        tombstones = self._groups.tombstones
        return {
            **{group_id: simple_group(group_id) for group_id in committed | pending},
            **{
                group_id: active_group_unloaded(group_id, tombstones[group_id])
                for group_id in pending - committed
                if group_id in tombstones
            },
            **self._groups.groups,
        }

    def offset_fetch(self, group_id: str) -> dict[OffsetKey, CommittedOffset]:
        """Return the answer of OffsetFetch for all partitions of a group."""
        group = self.groups.get(group_id)
        if group is None or group.group_type == SHARE:
            return {}
        return {key: value for key, value in self.offsets.items() if key.group_id == group_id}

    # --- replay

    def load(self, batches: Iterable[RecordBatch | CorruptBatch]) -> None:
        """Replay record batches in log order."""
        for batch in batches:
            if isinstance(batch, CorruptBatch):
                self._refuse(batch.base_offset, batch.reason)
                continue
            for record in batch.records:
                if batch.is_control:
                    self._load_control(record.record_offset, batch.producer_id, record.key)
                else:
                    self.replay(
                        record_offset=record.record_offset,
                        key=record.key,
                        value=record.value,
                        producer_id=batch.producer_id,
                        producer_epoch=batch.producer_epoch,
                        is_transactional=batch.is_transactional,
                    )
            if batch.remainder is not None:
                self._refuse(batch.remainder.base_offset, batch.remainder.reason)
        if self.strict and self.semantics is Semantics.SCALA:
            self._refuse_unloads()

    def replay(
        self,
        *,
        record_offset: int,
        key: bytes | None,
        value: bytes | None,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = -1,
        is_transactional: bool = False,
    ) -> None:
        """Replay one data record."""
        if key is None:
            self._refuse(record_offset, "null key")
            return
        try:
            decoded = decode_key(key)
            decoded_value = None if value is None else decode_value(decoded.record_type, value)
        except UnknownRecordType as error:
            self.warnings.append(LoadWarning(record_offset=record_offset, reason=str(error)))
            return
        except DecodeError as error:
            self._refuse(record_offset, str(error), is_strict=self._is_known_type(key))
            return
        fields = None if decoded_value is None else decoded_value.fields
        if decoded.record_type.id in OFFSET_COMMIT_TYPES:
            if decoded_value is not None:
                self._check_version(decoded, decoded_value, record_offset)
            self._replay_offset(
                decoded,
                fields,
                record_offset,
                producer_id,
                producer_epoch,
                is_transactional,
            )
        elif (
            self.semantics is Semantics.COORDINATOR or decoded.record_type.id == GROUP_METADATA_TYPE
        ):
            self._groups.replay(
                GroupRecord(
                    record_type=decoded.record_type.id,
                    group_id=decoded.group_id,
                    name=name_of(decoded.fields),
                    value=fields,
                    record_offset=record_offset,
                    value_bytes=len(value or b""),
                )
            )

    def replay_end_transaction_marker(self, producer_id: int, control_type: int) -> None:
        """Replay a COMMIT or ABORT marker."""
        self._offsets.replay_end_transaction_marker(producer_id, control_type)

    def _load_control(self, record_offset: int, producer_id: int, key: bytes | None) -> None:
        if key is None:
            self._refuse(record_offset, "null key")
            return
        try:
            version, control_type = read_control_key(key)
        except DecodeError as error:
            self._refuse(record_offset, str(error.within(record_type="control record key")))
            return
        if version < 0:
            # As `ControlRecordType.parseTypeId`, which accepts unknown higher versions.
            self._refuse(record_offset, f"control record key: negative version {version}")
            return
        self.replay_end_transaction_marker(producer_id, control_type)

    def _check_version(self, key: DecodedKey, value: DecodedValue, record_offset: int) -> None:
        """Warn of a value above v0 with a key of type 0: coordinators since 4.1 refuse it."""
        if (
            self.semantics is Semantics.COORDINATOR
            and self.release.refuses_legacy_values
            and key.record_type.id == LEGACY_OFFSET_COMMIT_TYPE
            and value.version > 0
        ):
            self._warn_of_replay(
                record_offset, f"unknown record version {value.version} for 0 type"
            )

    def _replay_offset(
        self,
        decoded: DecodedKey,
        fields: Fields | None,
        record_offset: int,
        producer_id: int,
        producer_epoch: int,
        is_transactional: bool,
    ) -> None:
        key = OffsetKey(
            decoded.fields["group"],
            decoded.fields["topic"],
            decoded.fields["partition"],
        )
        is_transactional = self._offsets.is_transactional(producer_id, is_transactional)
        if fields is None:
            self._offsets.replay_tombstone(
                key, producer_id=producer_id, is_transactional=is_transactional
            )
            return
        if self.semantics is Semantics.COORDINATOR:
            self._groups.replay_offset_commit(key.group_id)
        record = CommittedOffset(
            **offset_commit_values(fields),
            record_offset=record_offset,
            producer_id=producer_id if is_transactional else None,
            producer_epoch=producer_epoch if is_transactional else None,
        )
        self._offsets.replay_commit(key, record, is_transactional=is_transactional)

    def _warn_of_replay(self, record_offset: int, reason: str) -> None:
        if self.strict:
            raise ReplayError(reason, record_offset=record_offset)
        self.replay_warnings.append(LoadWarning(record_offset=record_offset, reason=reason))

    def _refuse_unloads(self) -> None:
        """Raise for groups that `scala` cannot unload; it finds them at the end of a load."""
        for group_id, group in self.groups.items():
            if group.is_simple and group.replay_warning is not None:
                reason = unexpected_unload(group_id)
                raise ReplayError(reason, record_offset=self._groups.tombstones[group_id])

    def _is_known_type(self, key: bytes) -> bool:
        """Whether the loader reads more of a record than its type.

        `scala` skips types above GroupMetadata as unknown (KIP-915).
        """
        if self.semantics is Semantics.COORDINATOR:
            return True
        try:
            record_type, _ = read_int16(memoryview(key), 0)
        except DecodeError:
            return True
        return record_type <= GROUP_METADATA_TYPE

    def _refuse(self, record_offset: int, reason: str, *, is_strict: bool = True) -> None:
        if self.strict and is_strict:
            raise ReplayError(reason, record_offset=record_offset)
        self.warnings.append(LoadWarning(record_offset=record_offset, reason=reason))
