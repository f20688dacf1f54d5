"""Logs for the tests of the reference loader, and what it answers in few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from coordinator_state.log.record_batch import read_record_batches
from coordinator_state.log.record_batch_writer import write_control_batch, write_record_batch
from coordinator_state.records.record_types import RECORD_TYPES
from coordinator_state.records.serde import encode_key
from coordinator_state.replay.loader import ReferenceLoader
from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from tests.support.logs.logs import group_value, offset_key, offset_value

GROUP = "foo"
NOW_MS = 1_700_000_000_000

COMMITTED = {("foo", 0): 23, ("foo", 1): 455, ("bar", 0): 8992}
OTHERS = {("foo", 2): 231, ("foo", 3): 4551, ("bar", 1): 89921}

COMMIT, ABORT = 1, 0

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA
both = pytest.mark.parametrize("semantics", list(Semantics))

Partition = tuple[str, int]
KeyAndValue = tuple[bytes | None, bytes | None]


def commits(
    offsets: Mapping[Partition, int | None],
    *,
    group_id: str = GROUP,
    version: int = 3,
    record_type: int = 1,
    **fields: Any,
) -> list[KeyAndValue]:
    """Offset commits of a group; None is a tombstone."""
    return [
        (
            offset_key(group_id, topic, partition, record_type),
            None if committed is None else offset_value(committed, version, **fields),
        )
        for (topic, partition), committed in offsets.items()
    ]


def group_record(
    *member_ids: str, group_id: str = GROUP, version: int = 3, generation: int = 935
) -> KeyAndValue:
    """A GroupMetadata record: Stable with members, Empty without; every member is static."""
    value = group_value(
        member_ids,
        generation=generation,
        version=version,
        instance_id="bar" if version >= 3 else None,
    )
    return group_key(group_id), value


def group_key(group_id: str = GROUP) -> bytes:
    return encode_key(RECORD_TYPES[2], {"group": group_id})


@dataclass
class Log:
    """Record batches one behind the other; methods that append give the offset they began at."""

    next_offset: int = 0
    raw: bytearray = field(default_factory=bytearray)

    def append(self, *records: KeyAndValue, producer_id: int = -1, **batch: Any) -> int:
        base_offset = self.next_offset
        self.raw += write_record_batch(
            base_offset,
            [(delta, NOW_MS, key, value) for delta, (key, value) in enumerate(records)],
            producer_id=producer_id,
            producer_epoch=-1 if producer_id == -1 else 2,
            **batch,
        )
        self.next_offset += len(records)
        return base_offset

    def transactional(self, producer_id: int, *records: KeyAndValue) -> int:
        return self.append(*records, producer_id=producer_id, is_transactional=True)

    def marker(self, producer_id: int, control_type: int = COMMIT, *, epoch: int = 2) -> int:
        self.raw += write_control_batch(self.next_offset, producer_id, epoch, control_type)
        self.next_offset += 1
        return self.next_offset - 1

    def control(self, *records: KeyAndValue) -> int:
        """A control batch of producer 1000 with any records at all."""
        return self.append(*records, producer_id=1000, is_transactional=True, is_control=True)

    def load(
        self,
        semantics: Semantics = COORDINATOR,
        *,
        strict: bool = True,
        release: Release = NEWEST_RELEASE,
    ) -> ReferenceLoader:
        loader = ReferenceLoader(semantics, strict=strict, release=release)
        loader.load(read_record_batches(bytes(self.raw)))
        return loader


def committed(loader: ReferenceLoader, group_id: str = GROUP) -> dict[Partition, int]:
    """What OffsetFetch answers for the group."""
    return {
        (key.topic, key.partition): value.committed_offset
        for key, value in loader.offset_fetch(group_id).items()
    }


def waiting(loader: ReferenceLoader) -> dict[int, dict[Partition, int]]:
    return {
        producer_id: {(k.topic, k.partition): v.committed_offset for k, v in records.items()}
        for producer_id, records in loader.pending.items()
    }
