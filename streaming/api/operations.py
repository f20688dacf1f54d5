"""All operations, by their addresses and by their tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from streaming.api.alerts import list_alerts
from streaming.api.changes import changes_between
from streaming.api.events import find_moves, list_events
from streaming.api.explanation import explain_group, explain_group_or_its_end
from streaming.api.groups import find_groups, get_group, get_group_lag, list_groups
from streaming.api.lag_history import lag_history
from streaming.api.operation import Operation
from streaming.api.scaling import get_scaling_lag
from streaming.api.sql import sql
from streaming.api.status import get_status
from streaming.api.topics import list_topic_groups
from streaming.api.transactions import find_transactions, list_transactions

OPERATIONS: Final[tuple[Operation, ...]] = (
    get_status,
    list_groups,
    get_group,
    get_group_lag,
    explain_group,
    get_scaling_lag,
    list_topic_groups,
    list_transactions,
    list_events,
    list_alerts,
    find_groups,
    explain_group_or_its_end,
    find_moves,
    changes_between,
    find_transactions,
    lag_history,
    sql,
)
ADDRESSES: Final[Mapping[str, Operation]] = {
    operation.path: operation for operation in OPERATIONS if operation.path is not None
}
"""The operations of the API by their paths below `/api/v1`."""
TOOLS: Final[Mapping[str, Operation]] = {
    operation.tool: operation for operation in OPERATIONS if operation.tool is not None
}
"""The operations of agents by their tools."""
