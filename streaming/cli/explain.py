"""The command `explain`; its Python API is `CoordinatorTables.explain`."""

from __future__ import annotations

import click

from streaming.cli.opened_tables import exit_without_rows, opened_tables
from streaming.cli.options import as_of_option, output_option, tables_option
from streaming.views.output import output_of


@click.command()
@click.argument("group")
@tables_option
@as_of_option
@output_option
@click.pass_context
def explain(ctx: click.Context, *, group: str, tables: str, as_of: str | None, output: str) -> None:
    """Explain why GROUP is behind, since when, and what changed just before.

    Prints up to six lines of evidence, the most direct cause first. Each names the records in
    __consumer_offsets or the SQL query that shows it. Looks at the last hour: members, rebalances,
    deploys, resets, transactions, commits, and the rates of producers and of the group. Exits with
    status 1 and a warning if the group is unknown. Python API: CoordinatorTables.explain.

    \b
    Examples:
      coordinator-state explain payments --tables tables
      coordinator-state explain payments --tables tables --as-of 2026-11-21T03:14:00Z
      coordinator-state explain payments --tables tables --output json
    """
    from streaming.views.explanation import explained, explanation_fields, explanation_text

    reader = opened_tables(tables, as_of, warns_if_stale=True)
    explanation = explained(reader, group)
    if explanation is None:
        exit_without_rows(ctx, reader, group, f"the tables have no data about group {group}")
    output_of(output).result(explanation_fields(explanation), explanation_text(explanation))
