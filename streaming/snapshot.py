"""All tables and views of one snapshot, each view computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from coordinator_state.group_status import StatusRules
from streaming.answers.expiring_offsets import expiring_offsets
from streaming.lag.group_lag import group_lag
from streaming.lag.group_status import (
    GROUP_STATUS,
    PARTITION_STATUS,
    judged_groups,
    judged_partitions,
)
from streaming.sql import Queried, query
from streaming.tables.reader import TableReader
from streaming.views import SELECTS, VIEWS


class Snapshot:
    """The tables as of one micro-batch, and what follows from them at a moment.

    Args:
        reader: the tables.
        at: the moment to which ages are measured, in place of the reader's.
        status_rules: the limits of statuses, in place of the defaults.
    """

    def __init__(
        self,
        reader: TableReader,
        *,
        at: datetime | None = None,
        status_rules: StatusRules | None = None,
    ) -> None:
        self.reader = reader
        self.at = at or reader.moment
        self._status_rules = status_rules or StatusRules()
        self._views: Mapping[str, Callable[[], pa.Table]] = {
            "group_lag": lambda: self.lags,
            "group_status": lambda: pa.Table.from_pylist(self.groups, GROUP_STATUS),
            "partition_status": lambda: pa.Table.from_pylist(self.partitions, PARTITION_STATUS),
            "expiring_offsets": lambda: self.expiring,
            **{name: partial(self._selected, name) for name in SELECTS},
        }
        self._found: dict[str, Queried] = {}

    @cached_property
    def lags(self) -> pa.Table:
        """The view `group_lag`."""
        return group_lag(self.reader, at=self.at)

    @cached_property
    def partitions(self) -> list[dict[str, Any]]:
        """Rows of `group_lag` with their status, as `judged_partitions` gives them."""
        return judged_partitions(self.reader, self.at, None, self._status_rules, self.lags)

    @cached_property
    def groups(self) -> list[dict[str, Any]]:
        """Rows of `group_status`."""
        return judged_groups(self.reader, self.at, None, self._status_rules, self.partitions)

    @cached_property
    def expiring(self) -> pa.Table:
        """The view `expiring_offsets`."""
        return expiring_offsets(self.reader)

    def queried(self, name: str) -> Queried:
        """A table or view for an engine that chooses rows and columns by itself."""
        if name not in self._found:
            view = self._views.get(name)
            self._found[name] = self.reader.dataset(name) if view is None else view()
        return self._found[name]

    def _selected(self, name: str) -> pa.Table:
        return query(SELECTS[name], self).cast(VIEWS[name])
