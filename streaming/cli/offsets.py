"""The command `coordinator-state offsets`; its Python API is `streaming.views.offset_fetch`."""

from __future__ import annotations

from dataclasses import asdict, fields

import click

from streaming.cli.opened_tables import exit_if_nothing_is_current, exit_if_unknown, opened_tables
from streaming.cli.options import as_of_option, option, output_option, tables_option
from streaming.errors import ConfigurationError
from streaming.views.output import output_of


@click.command()
@click.argument("group")
@click.argument("partitions", nargs=-1, metavar="[TOPIC:PARTITION]...")
@tables_option
@option(
    "--require-stable", is_flag=True, help="Answer UNSTABLE_OFFSET_COMMIT for a pending offset."
)
@as_of_option
@output_option
@click.pass_context
def offsets(
    ctx: click.Context,
    *,
    group: str,
    partitions: tuple[str, ...],
    tables: str,
    require_stable: bool,
    as_of: str | None,
    output: str,
) -> None:
    """Answer OffsetFetch for a group, including error codes.

    Without partitions, shows all committed offsets of GROUP. A partition without a committed offset
    has -1. A log partition that is still loading answers COORDINATOR_LOAD_IN_PROGRESS. A log
    partition that is not in the tables answers NOT_COORDINATOR. A warning counts log partitions
    that are not current yet. Exits with status 1 and a warning if none is current, or if the group
    does not exist (DescribeGroups: GROUP_ID_NOT_FOUND). Python API: offset_fetch in
    streaming.views.offset_fetch.

    \b
    Examples:
      coordinator-state offsets payments --tables tables
      coordinator-state offsets payments orders:0 orders:1 --tables tables --output json
    """
    from streaming.kafka.offset_fetch import NO_ERROR, OffsetFetchAnswer
    from streaming.views.offset_fetch import offset_fetch

    named = [_topic_partition(text) for text in partitions] or None
    reader = opened_tables(tables, as_of, warns_if_stale=True)
    answers = offset_fetch(reader, group, named, require_stable=require_stable)
    columns = [field.name for field in fields(OffsetFetchAnswer)]
    output_of(output).rows((asdict(answer) for answer in answers), columns)
    exit_if_nothing_is_current(ctx, reader)
    if all(answer.error == NO_ERROR for answer in answers):
        exit_if_unknown(ctx, reader, group)


def _topic_partition(text: str) -> tuple[str, int]:
    topic, colon, partition = text.rpartition(":")
    if not colon or not topic or not partition.isdecimal():
        raise ConfigurationError(f"{text!r} is not TOPIC:PARTITION")
    return topic, int(partition)
