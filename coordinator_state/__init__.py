"""The public names, and the pure core: bytes of `__consumer_offsets` to values, Arrow or errors.

The packages of the core use no Spark, network, clock, files or logging. Each imports only those to
its right: `model` | `apply` > `insight` > `replay` > `log` > `records` > `wire` > `errors`.

The names in `__all__` are public: the codec, the partitioner and the reference loader of the core,
and of the program in `streaming` its tables, `run`, `verify` and the embedded broker. All other
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
>>> from coordinator_state import CoordinatorTables, EmbeddedBroker, RunSettings
>>> from coordinator_state import create_views, run_query, verify_cluster
>>> settings = RunSettings(
...     bootstrap_servers="localhost:9092", tables="tables", available_now=True
... )
>>> run_query(settings)  # doctest: +SKIP
>>> CoordinatorTables("tables").sql("FROM group_lag")  # doctest: +SKIP
>>> verify_cluster("localhost:9092", "tables").is_equal  # doctest: +SKIP
>>> create_views(spark, "tables")  # doctest: +SKIP
>>> with EmbeddedBroker() as broker:  # doctest: +SKIP
...     print(broker.bootstrap_servers)
>>> CoordinatorTables("there/is/no/such/folder").groups()  # doctest: +ELLIPSIS
Traceback (most recent call last):
streaming.errors.ConfigurationError: ...
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from coordinator_state.log.record_batch import RecordBatch, read_record_batches
    from coordinator_state.log.record_batch_writer import write_record_batch
    from coordinator_state.records.record_types import RECORD_TYPES
    from coordinator_state.records.serde import decode_key, decode_value, encode_key, encode_value
    from coordinator_state.replay.loader import ReferenceLoader
    from coordinator_state.replay.offsets import Semantics
    from coordinator_state.replay.partitioner import partition_for
    from streaming.errors import ConfigurationError
    from streaming.local.broker.embedded import EmbeddedBroker
    from streaming.run.query import run_query
    from streaming.run.settings import RunSettings
    from streaming.verify.verify import verify_cluster
    from streaming.views.coordinator_tables import CoordinatorTables
    from streaming.views.spark_views import create_views

__all__ = [
    "RECORD_TYPES",
    "ConfigurationError",
    "CoordinatorTables",
    "EmbeddedBroker",
    "RecordBatch",
    "ReferenceLoader",
    "RunSettings",
    "Semantics",
    "create_views",
    "decode_key",
    "decode_value",
    "encode_key",
    "encode_value",
    "partition_for",
    "read_record_batches",
    "run_query",
    "verify_cluster",
    "write_record_batch",
]

_MODULES: Final = {
    "RECORD_TYPES": "coordinator_state.records.record_types",
    "ConfigurationError": "streaming.errors",
    "CoordinatorTables": "streaming.views.coordinator_tables",
    "EmbeddedBroker": "streaming.local.broker.embedded",
    "RecordBatch": "coordinator_state.log.record_batch",
    "ReferenceLoader": "coordinator_state.replay.loader",
    "RunSettings": "streaming.run.settings",
    "Semantics": "coordinator_state.replay.offsets",
    "create_views": "streaming.views.spark_views",
    "decode_key": "coordinator_state.records.serde",
    "decode_value": "coordinator_state.records.serde",
    "encode_key": "coordinator_state.records.serde",
    "encode_value": "coordinator_state.records.serde",
    "partition_for": "coordinator_state.replay.partitioner",
    "read_record_batches": "coordinator_state.log.record_batch",
    "run_query": "streaming.run.query",
    "verify_cluster": "streaming.verify.verify",
    "write_record_batch": "coordinator_state.log.record_batch_writer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if _MODULES[name].startswith("streaming."):
        require_program()
    return getattr(import_module(_MODULES[name]), name)


def require_program() -> None:
    """Check that Python finds the package `streaming` of this program.

    Another distribution has a package of this name: mosaicml-streaming.

    Raises:
        ImportError: Python finds another one.
    """
    try:
        distribution = getattr(import_module("streaming"), "DISTRIBUTION", None)
    except Exception:  # noqa: BLE001 - any code may run there; ours only imports this package
        distribution = None
    if distribution != "coordinator-state":
        spec = find_spec("streaming")
        raise ImportError(
            f"{spec.origin if spec else 'streaming'} is not the package of coordinator-state; "
            "install coordinator-state in an environment of its own, or remove the folder of the "
            "other package from PYTHONPATH"
        )
