"""The command `coordinator-state sql`; its Python API is `CoordinatorTables.sql`."""

from __future__ import annotations

import sys

import click

from streaming.cli.opened_tables import note_if_rebuilt, warn_if_loading
from streaming.cli.options import (
    OutputChoice,
    as_of_option,
    consistent_option,
    option,
    tables_option,
)
from streaming.views.output import OUTPUTS, CsvOutput, Output, SpreadsheetOutput

_OUTPUTS: dict[str, type[Output]] = {
    **OUTPUTS,
    "csv": CsvOutput,
    "spreadsheet-csv": SpreadsheetOutput,
}


@click.command()
@click.argument("select", metavar="SELECT")
@tables_option
@as_of_option
@consistent_option
@option(
    "--output",
    type=OutputChoice(_OUTPUTS),
    default="text",
    help="Aligned text, one JSON object per line, CSV with unchanged values, or CSV whose values a "
    "spreadsheet does not run as formulas.",
)
@option(
    "--parquet",
    type=click.Path(dir_okay=False),
    help="Write the rows to this Parquet file instead of stdout.",
)
def sql(
    *,
    select: str,
    tables: str,
    as_of: str | None,
    consistent: bool,
    output: Output,
    parquet: str | None,
) -> None:
    """Run a SELECT over all tables and views, as of one micro-batch.

    SELECT is DuckDB SQL; - reads it from stdin. It can read the tables (docs/tables.md) and
    the views group_lag, group_status, partition_status, topics, expiring_offsets, simple_groups,
    open_transactions and hanging_transactions, but nothing else of this machine. SHOW TABLES lists
    them. moment() is the time of the snapshot. Spark is not needed. Python API:
    CoordinatorTables.sql in streaming.views.coordinator_tables.

    \b
    Examples:
      coordinator-state sql "SELECT group_id, sum(lag) FROM group_lag GROUP BY ALL" --tables tables
      coordinator-state sql "FROM group_events WHERE group_id = 'payments'" --tables tables
      coordinator-state sql "FROM group_offsets" --tables tables --parquet offsets.parquet
    """
    from streaming.views.coordinator_tables import CoordinatorTables

    text = sys.stdin.read() if select == "-" else select
    opened = CoordinatorTables(tables, as_of=as_of, consistent=consistent)
    note_if_rebuilt(opened.reader)
    warn_if_loading(opened.reader)
    rows = opened.sql(text)
    if parquet is None:
        output.table(rows.arrow, rows.arrow.column_names)
    else:
        import pyarrow.parquet as pq

        pq.write_table(rows.arrow, parquet)
