"""The parts with external interfaces: Kafka, Spark, Delta tables, HTTP and the command line.

A package imports only those below it: `cli` > `local` > `run` > `dashboard` > `api` > `metrics` >
`http` | `served` > `alerts` > `plans` > `views` > `verify` > `engine` | `external` | `reload` |
`lag` > `tables` | `source` > `kafka` > `jvm` > `errors`, and `coordinator_state`.

The names in `__all__` are public. All other names may move. A public name is imported at its first
use, which keeps `import streaming` fast.

>>> from streaming import CoordinatorTables, EmbeddedBroker, RunSettings
>>> from streaming import create_views, run_query, verify_cluster
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
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from streaming.errors import ConfigurationError
    from streaming.local.broker.embedded import EmbeddedBroker
    from streaming.run.query import run_query
    from streaming.run.settings import RunSettings
    from streaming.verify.verify import verify_cluster
    from streaming.views.coordinator_tables import CoordinatorTables
    from streaming.views.spark_views import create_views

__all__ = [
    "ConfigurationError",
    "CoordinatorTables",
    "EmbeddedBroker",
    "RunSettings",
    "create_views",
    "run_query",
    "verify_cluster",
]

_MODULES: Final = {
    "ConfigurationError": "streaming.errors",
    "CoordinatorTables": "streaming.views.coordinator_tables",
    "EmbeddedBroker": "streaming.local.broker.embedded",
    "RunSettings": "streaming.run.settings",
    "create_views": "streaming.views.spark_views",
    "run_query": "streaming.run.query",
    "verify_cluster": "streaming.verify.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
