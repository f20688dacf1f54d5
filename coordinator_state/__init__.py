"""The pure core: turns bytes of `__consumer_offsets` into values, Arrow tables or errors.

It uses no Spark, network, clock, files or logging. Each package imports only packages to its right:
`model` | `apply` > `insight` > `replay` > `log` > `records` > `wire` > `errors`.

The names in `__all__` are public: the codec, the partitioner and the reference loader. All other
names may move. Public names are imported lazily, at their first use.

>>> from coordinator_state import partition_for, read_record_batches, write_record_batch
>>> from coordinator_state import RECORD_TYPES, decode_key, decode_value, encode_key, encode_value
>>> from coordinator_state import RecordBatch, ReferenceLoader, Semantics
>>> partition_for("payments", 50)
13
>>> key = encode_key(RECORD_TYPES[1], {"group": "payments", "topic": "orders", "partition": 0})
>>> decode_key(key).fields["topic"]
'orders'
>>> loader = ReferenceLoader(Semantics.COORDINATOR)
>>> loader.load(read_record_batches(b""))
>>> loader.offsets
{}
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coordinator_state.log.record_batch import RecordBatch, read_record_batches
    from coordinator_state.log.record_batch_writer import write_record_batch
    from coordinator_state.records.record_types import RECORD_TYPES
    from coordinator_state.records.serde import decode_key, decode_value, encode_key, encode_value
    from coordinator_state.replay.loader import ReferenceLoader
    from coordinator_state.replay.offsets import Semantics
    from coordinator_state.replay.partitioner import partition_for

__all__ = [
    "RECORD_TYPES",
    "RecordBatch",
    "ReferenceLoader",
    "Semantics",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
    "partition_for",
    "read_record_batches",
    "write_record_batch",
]

_MODULES: Final = {
    "RECORD_TYPES": "coordinator_state.records.record_types",
    "RecordBatch": "coordinator_state.log.record_batch",
    "ReferenceLoader": "coordinator_state.replay.loader",
    "Semantics": "coordinator_state.replay.offsets",
    "decode_key": "coordinator_state.records.serde",
    "decode_value": "coordinator_state.records.serde",
    "encode_key": "coordinator_state.records.serde",
    "encode_value": "coordinator_state.records.serde",
    "partition_for": "coordinator_state.replay.partitioner",
    "read_record_batches": "coordinator_state.log.record_batch",
    "write_record_batch": "coordinator_state.log.record_batch_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
