"""Groups of tables in memory, changed as micro-batches change them."""

from __future__ import annotations

from collections.abc import Mapping

from coordinator_state.apply.collected import GroupId
from coordinator_state.apply.groups import GroupChange
from coordinator_state.replay.offsets import Semantics
from tests.support.logs.log_rows import LOG_PARTITION, Row, table_of
from tests.support.tables.plan_tables import PlanTables

COORDINATOR, SCALA = Semantics.COORDINATOR, Semantics.SCALA

G: GroupId = (LOG_PARTITION, "g")


class Tables(PlanTables):
    """Tables to which rows by hand are applied."""

    def apply_rows(self, *rows: Row) -> Mapping[GroupId, GroupChange]:
        """Apply a micro-batch; gives the changes of groups."""
        return self.apply(table_of(rows), end=0).group_changes.changes
