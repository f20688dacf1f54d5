"""The record types of `__share_group_state`: delivery states of the partitions of share groups.

A snapshot has the whole state of a partition, an update the part that changed since.

Source: share-coordinator/src/main/resources/common/message/Share{Snapshot,Update}{Key,Value}.json
at 4.0.0 to 4.4.0; KIP-932, KIP-1226 for DeliveryCompleteCount, which 4.2 writes.
"""

from __future__ import annotations

from typing import Final

from coordinator_state.records.record_types import RecordType
from coordinator_state.wire.schema import Field, Schema

_KEY: Final = (
    Field(name="groupId", type="string"),
    Field(name="topicId", type="uuid"),
    Field(name="partition", type="int32"),
)
_SNAPSHOT_EPOCH: Final = Field(name="snapshotEpoch", type="int32")
_DELIVERY: Final = (
    Field(name="leaderEpoch", type="int32"),
    Field(name="startOffset", type="int64"),
)
_BATCHES: Final = Field(
    name="stateBatches",
    type="struct",
    is_array=True,
    fields=(
        Field(name="firstOffset", type="int64"),
        Field(name="lastOffset", type="int64"),
        Field(name="deliveryState", type="int8"),
        Field(name="deliveryCount", type="int16"),
    ),
)
_COMPLETE_COUNT: Final = Field(name="deliveryCompleteCount", type="int32", tag=0, default=-1)


_STATE_EPOCH: Final = Field(name="stateEpoch", type="int32")
# 4.0's early access, under the same version number.
_EARLY_SNAPSHOT_EPOCH: Final = Field(name="snapshotEpoch", type="uint16")


def _record(
    record_type: int, name: str, fields: tuple[Field, ...], early_access: tuple[Field, ...]
) -> RecordType:
    def schema(fields: tuple[Field, ...]) -> Schema:
        return Schema(name=f"{name}Value", versions=(0, 0), first_flexible=0, fields=fields)

    return RecordType(
        id=record_type,
        name=name,
        key_fields=_KEY,
        value=schema(fields),
        early_access_value=schema(early_access),
    )


SHARE_STATE_RECORD_TYPES: Final = {
    0: _record(
        0,
        "ShareSnapshot",
        (
            _SNAPSHOT_EPOCH,
            _STATE_EPOCH,
            *_DELIVERY,
            _COMPLETE_COUNT,
            Field(name="createTimestamp", type="int64"),
            Field(name="writeTimestamp", type="int64"),
            _BATCHES,
        ),
        (_EARLY_SNAPSHOT_EPOCH, _STATE_EPOCH, *_DELIVERY, _BATCHES),
    ),
    1: _record(
        1,
        "ShareUpdate",
        (_SNAPSHOT_EPOCH, *_DELIVERY, _COMPLETE_COUNT, _BATCHES),
        (_EARLY_SNAPSHOT_EPOCH, *_DELIVERY, _BATCHES),
    ),
}
"""The record types by their number in the key."""
