"""The parts with external interfaces: Kafka, Spark, Delta tables, HTTP and the command line.

A package imports only those below it: `cli` > `local` > `run` > `dashboard` > `api` > `metrics` >
`http` | `served` > `alerts` > `plans` > `views` > `verify` > `engine` | `external` | `reload` |
`lag` > `tables` | `source` > `kafka` > `jvm` > `errors`, and `coordinator_state`.

The public names are in `coordinator_state`; they can be imported from here, too, as in 0.1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import coordinator_state

if TYPE_CHECKING:
    from coordinator_state import (
        ConfigurationError,
        CoordinatorTables,
        EmbeddedBroker,
        RunSettings,
        create_views,
        run_query,
        verify_cluster,
    )

__all__ = [
    "ConfigurationError",
    "CoordinatorTables",
    "EmbeddedBroker",
    "RunSettings",
    "create_views",
    "run_query",
    "verify_cluster",
]

DISTRIBUTION: Final = "coordinator-state"
"""Tells this package from others of its name."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(coordinator_state, name)
