"""Commits, fetches, deletes and expires the offsets of a coordinator's groups.

Records are appended before the memory is updated: the record offset decides which offset wins.

Source: group-coordinator/src/main/java/org/apache/kafka/coordinator/group/
OffsetMetadataManager.java and GroupCoordinatorShard.java (`deleteGroups`, `cleanupGroupMetadata`)
at 4.2.0; GroupMetadataManager.scala (`storeOffsets`, `cleanupGroupMetadata`) and
GroupMetadata.scala (`removeOffsets`, `removeExpiredOffsets`) at 3.9.1; KIP-211.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from coordinator_state.model.classic_group import ClassicGroup
from coordinator_state.model.log import Producer
from coordinator_state.model.rebalance import Rebalances
from coordinator_state.model.records import offset_commit, offset_tombstone
from coordinator_state.model.requests import (
    ErrorCode,
    FetchedOffset,
    OffsetCommitRequest,
    OffsetToCommit,
)
from coordinator_state.model.shard import LiveGroup, Shard
from coordinator_state.replay.offsets import (
    CONTROL_TYPE_ABORT,
    CONTROL_TYPE_COMMIT,
    CommittedOffset,
    OffsetKey,
)

Partition = tuple[str, int]
"""Topic name and partition."""
_GROUP_ID_NOT_FOUND_VERSION = 9


@dataclass(slots=True)
class OffsetManager:
    """Holds the committed offsets and, by producer id, the pending offsets."""

    shard: Shard
    rebalances: Rebalances
    offsets: dict[OffsetKey, CommittedOffset] = field(default_factory=dict)
    pending: dict[int, dict[OffsetKey, CommittedOffset]] = field(default_factory=dict)
    _open_transactions: set[tuple[str, int]] = field(default_factory=set)
    """Group and producer id of each open transaction, even if its offsets were deleted."""

    # --- commit

    def commit_offsets(
        self, request: OffsetCommitRequest, producer: Producer | None = None
    ) -> dict[Partition, ErrorCode]:
        """Commit offsets (OffsetCommit), or add them to a producer's transaction (TxnOffsetCommit).

        Returns:
            The error code of each partition.
        """
        error_code = self.shard.refusal(request.group_id, allows_empty_id=producer is None)
        is_new_group = request.group_id not in self.shard.groups
        if error_code is ErrorCode.NONE:
            error_code = self._validate_commit(request, producer is not None)
        if error_code is not ErrorCode.NONE:
            return {(o.topic, o.partition): error_code for o in request.offsets}
        max_length = self.shard.config.offset_metadata_max_bytes
        accepted = [o for o in request.offsets if len(_utf16(o.metadata)) <= max_length]
        error_code = ErrorCode.NONE
        if accepted:
            error_code = self._append_commits(request, accepted, producer)
            if error_code is not ErrorCode.NONE:
                self._handle_failed_append(request, accepted, producer, is_new_group=is_new_group)
        return {
            (o.topic, o.partition): error_code
            if o in accepted
            else ErrorCode.OFFSET_METADATA_TOO_LARGE
            for o in request.offsets
        }

    def _validate_commit(self, request: OffsetCommitRequest, is_transactional: bool) -> ErrorCode:
        group = self.shard.groups.get(request.group_id)
        if group is None:
            if request.generation_id < 0 or (self.shard.is_scala and is_transactional):
                # A commit without a generation creates a simple group.
                group = self.shard.new_group(request.group_id)
            elif (
                self.shard.is_scala
                or is_transactional
                or request.version < _GROUP_ID_NOT_FOUND_VERSION
            ):
                return ErrorCode.ILLEGAL_GENERATION
            else:
                return ErrorCode.GROUP_ID_NOT_FOUND
        error_code = group.validate_offset_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            is_transactional=is_transactional,
            version=request.version,
        )
        if error_code is ErrorCode.NONE and not is_transactional:
            self.rebalances.renew_session(group, request.member_id)
        return error_code

    def _append_commits(
        self,
        request: OffsetCommitRequest,
        offsets: Sequence[OffsetToCommit],
        producer: Producer | None,
    ) -> ErrorCode:
        commits = [self._commit(request, offset, producer) for offset in offsets]
        records = [offset_commit(key, offset, self.shard.semantics) for key, offset in commits]
        error_code, base_offset = self.shard.append(
            records, self.shard.offset_error, producer, are_commits=True
        )
        if error_code is ErrorCode.NONE:
            group = self.shard.groups[request.group_id]
            if isinstance(group, ClassicGroup):
                group.has_commits = True
            into = self.offsets
            if producer is not None:
                into = self.pending.setdefault(producer.producer_id, {})
                self._open_transactions.add((request.group_id, producer.producer_id))
            for delta, (key, offset) in enumerate(commits):
                into[key] = replace(offset, record_offset=base_offset + delta)
        return error_code

    def _handle_failed_append(
        self,
        request: OffsetCommitRequest,
        offsets: Sequence[OffsetToCommit],
        producer: Producer | None,
        *,
        is_new_group: bool,
    ) -> None:
        """Update the memory after the append of a commit failed.

        Kafka 4 removes the group if this commit created it. Kafka 3 keeps the group, but loses the
        producer's earlier pending offsets of the same partitions.
        """
        if not self.shard.is_scala:
            if is_new_group:
                del self.shard.groups[request.group_id]
        elif producer is not None:
            keys = {OffsetKey(request.group_id, o.topic, o.partition) for o in offsets}
            pending = self.pending.get(producer.producer_id, {})
            remaining = {key: offset for key, offset in pending.items() if key not in keys}
            self.pending[producer.producer_id] = remaining
            if not remaining:
                del self.pending[producer.producer_id]
                self._open_transactions = {
                    entry for entry in self._open_transactions if entry[1] != producer.producer_id
                }

    def _commit(
        self, request: OffsetCommitRequest, offset: OffsetToCommit, producer: Producer | None
    ) -> tuple[OffsetKey, CommittedOffset]:
        now_ms = self.shard.now_ms
        expires = request.retention_time_ms >= 0
        # Records with an expire timestamp have no leader epoch and no topic id.
        epoch = None if expires or offset.leader_epoch < 0 else offset.leader_epoch
        has_topic_id = not (expires or self.shard.is_scala or producer is not None)
        key = OffsetKey(request.group_id, offset.topic, offset.partition)
        return key, CommittedOffset(
            committed_offset=offset.committed_offset,
            leader_epoch=epoch,
            metadata=offset.metadata or "",
            commit_timestamp_ms=now_ms,
            expire_timestamp_ms=now_ms + request.retention_time_ms if expires else None,
            topic_id=offset.topic_id if has_topic_id else None,
            record_offset=-1,
            producer_id=None if producer is None else producer.producer_id,
            producer_epoch=None if producer is None else producer.producer_epoch,
        )

    def end_transaction(self, producer: Producer, *, is_commit: bool) -> None:
        """Append the marker; COMMIT applies the producer's pending offsets, ABORT drops them.

        With transactions version 2 the marker has the epoch after the producer's (KIP-890).
        """
        control_type = CONTROL_TYPE_COMMIT if is_commit else CONTROL_TYPE_ABORT
        self.shard.log.append_marker(producer, control_type, self.shard.now_ms)
        self._open_transactions = {
            entry for entry in self._open_transactions if entry[1] != producer.producer_id
        }
        for key, offset in self.pending.pop(producer.producer_id, {}).items():
            stored = self.offsets.get(key)
            if is_commit and (stored is None or stored.record_offset < offset.record_offset):
                self.offsets[key] = offset

    # --- fetch

    def fetch_offsets(
        self,
        group_id: str,
        partitions: Iterable[Partition] | None = None,
        *,
        require_stable: bool = False,
    ) -> tuple[ErrorCode, dict[Partition, FetchedOffset]]:
        """Fetch a group's offsets of these partitions, or all of them if None."""
        refusal = self.shard.refusal(group_id, allows_empty_id=True)
        if refusal is not ErrorCode.NONE:
            return refusal, {}
        known = {} if group_id not in self.shard.groups else self._offsets_of(group_id)
        pending = {k for k in self._pending_of(group_id) if group_id in self.shard.groups}
        asked = [(key.topic, key.partition) for key in known] if partitions is None else partitions
        fetched_offsets = {}
        for topic, partition in asked:
            key = OffsetKey(group_id, topic, partition)
            offset = known.get(key)
            if require_stable and key in pending:
                fetched_offsets[topic, partition] = FetchedOffset(
                    error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
                )
            elif offset is None:
                fetched_offsets[topic, partition] = FetchedOffset()
            else:
                fetched_offsets[topic, partition] = FetchedOffset(
                    committed_offset=offset.committed_offset,
                    leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
                    metadata=offset.metadata,
                )
        return ErrorCode.NONE, fetched_offsets

    def _offsets_of(self, group_id: str) -> dict[OffsetKey, CommittedOffset]:
        return {key: o for key, o in self.offsets.items() if key.group_id == group_id}

    def _pending_of(self, group_id: str) -> Iterator[OffsetKey]:
        for pending in self.pending.values():
            yield from (key for key in pending if key.group_id == group_id)

    # --- delete

    def delete_offsets(
        self, group_id: str, partitions: Sequence[Partition]
    ) -> tuple[ErrorCode, dict[Partition, ErrorCode]]:
        """Delete offsets of topics that no member of the group subscribes to."""
        error_code = self.shard.refusal(group_id)
        group = self.shard.groups.get(group_id)
        if error_code is ErrorCode.NONE:
            error_code = (
                ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_offset_delete()
            )
        if error_code is not ErrorCode.NONE or group is None:
            return error_code, {}
        is_checked = not (self.shard.is_scala and group.is_empty)
        consumed = {p for p in partitions if is_checked and group.is_subscribed_to(p[0])}
        keys = [OffsetKey(group_id, *p) for p in partitions if p not in consumed]
        error_code = self._delete(group, keys, deletes_group=False) if keys else ErrorCode.NONE
        if error_code is not ErrorCode.NONE:
            return error_code, {}
        return ErrorCode.NONE, {
            p: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if p in consumed else ErrorCode.NONE
            for p in partitions
        }

    def delete_groups(self, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
        """Delete groups without members, with their offsets."""
        answers: dict[str, ErrorCode] = {}
        for group_id in group_ids:
            error_code = self.shard.refusal(group_id, allows_empty_id=True)
            group = self.shard.groups.get(group_id)
            if error_code is ErrorCode.NONE:
                error_code = (
                    ErrorCode.GROUP_ID_NOT_FOUND if group is None else group.validate_delete()
                )
            if error_code is ErrorCode.NONE and group is not None:
                keys = dict.fromkeys(self._offsets_of(group_id))
                if not self.shard.is_scala:
                    # One tombstone per key, even if several producers have a pending offset.
                    keys |= dict.fromkeys(self._pending_of(group_id))
                error_code = self._delete(group, list(keys), deletes_group=True)
            answers[group_id] = error_code
        return answers

    def _delete(
        self, group: LiveGroup, keys: Sequence[OffsetKey], *, deletes_group: bool
    ) -> ErrorCode:
        """Delete offsets by request, together with pending offsets of the same partitions.

        Kafka 3 writes no tombstones for keys with only pending offsets. It also deletes an empty
        group with its last offset.
        """
        pending = set(self._pending_of(group.group_id))
        written = [
            k for k in keys if k in self.offsets or (k in pending and not self.shard.is_scala)
        ]
        if (
            self.shard.is_scala
            and group.is_empty
            and not self._has_open_transaction(group.group_id)
        ):
            deletes_group = deletes_group or not self._offsets_of(group.group_id).keys() - set(keys)
        error_code = self._append_tombstones(group, written, deletes_group=deletes_group)
        if error_code is ErrorCode.NONE:
            self._forget_pending(pending if deletes_group else set(keys))
        return error_code

    def _append_tombstones(
        self, group: LiveGroup, keys: Sequence[OffsetKey], *, deletes_group: bool
    ) -> ErrorCode:
        """Append tombstones of offsets, and of their group if it is deleted, then drop them.

        Kafka 3 writes no tombstone for a group of generation 0, because it takes it for a simple
        group. It also ignores a failed append.
        """
        records = [offset_tombstone(key) for key in keys]
        if deletes_group and not (self.shard.is_scala and group.is_never_stored):
            records += group.tombstones()
        error_code = ErrorCode.NONE
        if records:
            error_code, _ = self.shard.append(records, self.shard.offset_error)
        if error_code is not ErrorCode.NONE and not self.shard.is_scala:
            return error_code
        for key in keys:
            self.offsets.pop(key, None)
        if deletes_group:
            self.shard.remove_group(group)
            self._open_transactions = {
                entry for entry in self._open_transactions if entry[0] != group.group_id
            }
        return ErrorCode.NONE

    def _forget_pending(self, keys: set[OffsetKey]) -> None:
        for producer_id, pending in list(self.pending.items()):
            remaining = {key: offset for key, offset in pending.items() if key not in keys}
            if remaining:
                self.pending[producer_id] = remaining
            else:
                del self.pending[producer_id]

    def _has_open_transaction(self, group_id: str) -> bool:
        """Whether an open transaction prevents the deletion of the group."""
        if self.shard.is_scala:
            return any(entry[0] == group_id for entry in self._open_transactions)
        return any(self._pending_of(group_id))

    # --- expire

    def expire_offsets(self) -> int:
        """Expire offsets, as brokers do every ten minutes, and return their number.

        An Empty group is deleted with its last offset, or at once if it has no offsets.
        """
        expired = 0
        offsets_of: dict[str, dict[OffsetKey, CommittedOffset]] = defaultdict(dict)
        for key, offset in self.offsets.items():
            offsets_of[key.group_id][key] = offset
        pending = {key for keys in self.pending.values() for key in keys}
        for group_id, group in list(self.shard.groups.items()):
            offsets = offsets_of[group_id]
            keys = [
                key
                for key, offset in offsets.items()
                if self._is_expired(group, key, offset)
                and (key not in pending or self.shard.is_scala)
            ]
            deletes_group = (
                group.is_empty
                and len(keys) == len(offsets)
                and not self._has_open_transaction(group_id)
            )
            if keys or deletes_group:
                self._append_tombstones(group, keys, deletes_group=deletes_group)
                expired += len(keys)
        return expired

    def _is_expired(self, group: LiveGroup, key: OffsetKey, offset: CommittedOffset) -> bool:
        base_ms = group.expiry_base_ms(offset)
        if base_ms is None or group.is_subscribed_to(key.topic):
            return False
        if offset.expire_timestamp_ms is not None:
            return self.shard.now_ms >= offset.expire_timestamp_ms
        return self.shard.now_ms - base_ms >= self.shard.config.offsets_retention_ms


def _utf16(text: str | None) -> bytes:
    """One byte for each UTF-16 code unit, because brokers measure metadata in Java chars."""
    return (text or "").encode("utf-16-be", "surrogatepass")[::2]
