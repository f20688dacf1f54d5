"""The state before a micro-batch, as a data frame of the rows that the micro-batch depends on."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING

from streaming.engine.spark.planned_rows import STATE_COLUMNS
from streaming.engine.spark.spark_tables import SparkTables
from streaming.tables.schemas import GROUP_OFFSETS, PENDING_OFFSETS, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_GROUP = ["log_partition", "group_id"]


def stored_state(
    session: SparkSession,
    tables: SparkTables,
    log_partitions: Collection[int],
    touched: DataFrame,
    *,
    with_committed: bool,
    with_pending: bool,
    broadcasts: bool,
) -> DataFrame:
    """The stored rows of the touched groups, and of groups with pending offsets.

    It reads the newest version of each table. That version has the rows of the newest snapshot: the
    start of the query rolled unfinished micro-batches back, maintenance changes no rows, and a
    newer writer lets this one commit nothing more.

    Args:
        session: the session of the micro-batch.
        tables: the tables of the folder.
        log_partitions: the log partitions whose rows are not replaced.
        touched: the groups that the micro-batch has records of: log partition and group id.
        with_committed: whether committed offsets are needed.
        with_pending: whether there are pending offsets.
        broadcasts: whether to send the names of the groups to every executor; the alternative is a
            shuffle of the tables.

    Returns:
        `log_partition` and one struct for each table of `STATE_COLUMNS` that is needed; one is set
        in each row.
    """
    from pyspark.sql import functions as f

    def rows_of(table: Table) -> DataFrame:
        rows = tables.read(session, table)
        return rows.where(f.col("log_partition").isin(list(log_partitions)))

    def state_of(table: Table) -> DataFrame:
        return rows_of(table).select(*_GROUP, f.struct(*STATE_COLUMNS[table]).alias(table.name))

    is_needed = {GROUP_OFFSETS: with_committed, PENDING_OFFSETS: with_pending}
    needed = [table for table in STATE_COLUMNS if is_needed.get(table, True)]
    with ThreadPoolExecutor() as pool:
        # Delta reads the log of a table when it plans a scan, so plan the scans at the same time.
        list(pool.map(lambda table: rows_of(table)._jdf.queryExecution().optimizedPlan(), needed))
    groups = touched
    if with_pending:
        groups = groups.union(rows_of(PENDING_OFFSETS).select(_GROUP))
    state = reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True), map(state_of, needed)
    )
    if broadcasts:
        groups = f.broadcast(groups)
    return state.join(groups, _GROUP, "left_semi").drop("group_id")
