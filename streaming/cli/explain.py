"""The command `explain`; its Python API is `CoordinatorTables.explain`."""

from __future__ import annotations

import click

from streaming.cli.offsets import EXIT_UNKNOWN_GROUP
from streaming.cli.options import as_of_option, output_option, tables_option
from streaming.run.stderr import write_warning
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
    from streaming.cli.rebuilt_note import write_rebuilt_note
    from streaming.cli.stale_note import write_stale_note
    from streaming.tables.reader import TableReader
    from streaming.views.explanation import explained, explanation_fields, explanation_text
    from streaming.views.unknown_group import unknown_group

    reader = TableReader(tables, as_of=as_of)
    explanation = explained(reader, group)
    write_rebuilt_note(reader)
    write_stale_note(reader)
    if explanation is None:
        write_warning(
            unknown_group(reader, group) or f"the tables have no data about group {group}"
        )
        ctx.exit(EXIT_UNKNOWN_GROUP)
    output_of(output).result(explanation_fields(explanation), explanation_text(explanation))
