"""A log that Kafka's own shard wrote, loaded by the reference loader and by a second shard.

The comparison needs no model of the coordinator, so it works with every Kafka release.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Final

from coordinator_state.log.record import read_control_key
from coordinator_state.log.record_batch import CorruptBatch, read_record_batches
from coordinator_state.model.requests import ErrorCode, FetchedOffset
from coordinator_state.records.record_types import NO_LEADER_EPOCH
from coordinator_state.replay.groups import CLASSIC, Group
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import CONTROL_TYPE_COMMIT
from tests.shard_oracle.comparison import START_MS, Compared, Settings, require_same
from tests.shard_oracle.shard_process import Json, ShardProcess

_CONSUMER: Final = "consumer"


class ReplayComparison(Compared):
    """Puts each request to Kafka; counts the compared groups and offsets by kind.

    After each request, consumer groups of the shard, which are in the log as they are, have to be
    those of the loader. `load_again` has another shard load the log, and compares everything.

    Raises:
        Difference: the loader has something else, or would refuse the log.
    """

    def __init__(self, process: ShardProcess, settings: Settings, seed: int) -> None:
        super().__init__(process, settings, seed)
        self._now_ms = START_MS
        self._loader = ReferenceLoader(strict=True, release=process.release)
        self._loaded = 0

    def ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Put a request to Kafka; returns its answer."""
        self.note(method, *arguments, **options)
        answer = getattr(self.kafka, method)(*arguments, **options)
        self._compare()
        return answer

    def wait(self, delay_ms: int) -> None:
        """Let time pass."""
        self.note("wait", delay_ms)
        self._now_ms += delay_ms
        self.kafka.advance(self._now_ms)
        self._compare()

    def load_again(self) -> None:
        """Have a new shard replay the log, and compare all groups and offsets."""
        log = b"".join(self.kafka.log.raw)
        self.steps.append("a new shard loads the log")
        again = self.new_shard()
        again.replay(_records(log))
        again.log = self.kafka.log
        held = {g: _without_members_in_memory(group) for g, group in again.groups.items()}
        expected = {group_id: _of_loader(group) for group_id, group in self._loader.groups.items()}
        require_same("groups after a load", expected, held)
        for group_id in expected:
            error_code, fetched = again.fetch_offsets(group_id)
            require_same(f"offsets of {group_id}", self._offsets(group_id), fetched)
            assert error_code is ErrorCode.NONE
            _, stable = again.fetch_offsets(group_id, require_stable=True)
            unstable = {
                key
                for key, offset in stable.items()
                if offset.error_code is ErrorCode.UNSTABLE_OFFSET_COMMIT
            }
            require_same(f"pending offsets of {group_id}", self._pending(group_id), unstable)
            self.seen["loaded group"] += 1
            self.seen["pending offset"] += len(unstable)
            self.seen["loaded offset"] += len(fetched)

    def _compare(self) -> None:
        new = self.kafka.log.raw[self._loaded :]
        self._loaded = len(self.kafka.log.raw)
        self._loader.load(read_record_batches(b"".join(new)))
        groups = self._loader.groups
        for group_id, held in self.kafka.groups.items():
            if held["type"] == _CONSUMER:
                loaded = _of_loader(groups[group_id]) if group_id in groups else None
                require_same(f"group {group_id}", loaded, _without_members_in_memory(held))
                self.seen["live consumer group"] += 1

    def _pending(self, group_id: str) -> set[tuple[str, int]]:
        return {
            (key.topic, key.partition)
            for keys in self._loader.pending.values()
            for key in keys
            # Without partitions OffsetFetch names only those that have a committed offset.
            if key.group_id == group_id and key in self._loader.offsets
        }

    def _offsets(self, group_id: str) -> dict[tuple[str, int], FetchedOffset]:
        return {
            (key.topic, key.partition): FetchedOffset(
                committed_offset=offset.committed_offset,
                leader_epoch=(
                    NO_LEADER_EPOCH if offset.leader_epoch is None else offset.leader_epoch
                ),
                metadata=offset.metadata,
            )
            for key, offset in self._loader.offset_fetch(group_id).items()
        }


def _records(log: bytes) -> Iterator[Json]:
    """The log as questions to the shard."""
    for batch in read_record_batches(log):
        assert not isinstance(batch, CorruptBatch)
        for record in batch.records:
            question: Json = {
                "offset": record.record_offset,
                "producerId": batch.producer_id,
                "producerEpoch": batch.producer_epoch,
            }
            if batch.is_control:
                _, control_type = read_control_key(record.key or b"")
                yield {**question, "isCommit": control_type == CONTROL_TYPE_COMMIT}
            else:
                yield {**question, "key": _base64(record.key), "value": _base64(record.value)}


def _base64(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode()


def _of_loader(group: Group) -> Json:
    members = sorted(member.member_id for member in group.members)
    fields: Json = {"type": group.group_type, "state": group.state, "members": members}
    if group.group_type == CLASSIC:
        return {**fields, "epoch": group.generation, "leader": group.leader}
    return {**fields, "epoch": group.group_epoch, "assignmentEpoch": group.assignment_epoch}


def _without_members_in_memory(held: Json) -> Json:
    """What a shard holds, without members that no record has yet."""
    stored = {name: value for name, value in held.items() if name != "pending"}
    return {**stored, "members": sorted(held["members"])}
