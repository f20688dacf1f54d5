"""The parts with external interfaces: Kafka, Spark, Delta tables, HTTP and the command line.

A package imports only those below it: `cli` > `local` > `run` > `dashboard` > `api` > `metrics` >
`http` | `served` > `alerts` > `plans` > `views` > `verify` > `engine` | `external` | `reload` |
`lag` > `tables` | `source` > `kafka` > `jvm` > `errors`, and `coordinator_state`.

The public names are in `coordinator_state`; they can be imported from here, too, as in 0.1.0.
"""

from __future__ import annotations

from typing import Any, Final

import coordinator_state

DISTRIBUTION: Final = "coordinator-state"
"""Tells this package from others of its name."""


def __getattr__(name: str) -> Any:
    if name not in coordinator_state.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(coordinator_state, name)
