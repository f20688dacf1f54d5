"""The command `coordinator-state plan`; its Python API is `streaming.plans`."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from streaming.cli.opened_tables import (
    exit_if_nothing_is_current,
    exit_without_rows,
    opened_tables,
)
from streaming.cli.options import (
    DURATION,
    exit_with_difference,
    option,
    optional_bootstrap_servers_option,
    options,
    output_option,
    tables_option,
    usage_error,
)
from streaming.errors import ConfigurationError
from streaming.run.stderr import write_note, write_warning
from streaming.tables.clock import utc_now
from streaming.views.output import Output

if TYPE_CHECKING:
    from streaming.plans.group_plan import GroupPlan
    from streaming.tables.reader import TableReader


servers_option = optional_bootstrap_servers_option(
    help="Brokers for the printed commands; plan itself does not connect. [default: a placeholder]",
)
topic_option = option(
    "--topic",
    "topics",
    metavar="TOPIC[:PARTITION]",
    multiple=True,
    help="Only this topic or partition; repeatable.",
)
file_option = option(
    "--file", metavar="FILE", help="Write the plan to this CSV file, and print its commands."
)
force_option = option("--force", is_flag=True, help="Overwrite the file if its content differs.")
at_option = option(
    "--at",
    metavar="TIME",
    help="Use the offsets of an earlier time: 5m, 03:14, 2026-11-21T03:14:00Z. A time without a "
    "zone is UTC.",
)
written_options = options(file_option, force_option, servers_option, output_option)


@click.group()
def plan() -> None:
    """Plan resets, clones, cleanups and backups that Kafka's own tools execute.

    The commands write nothing to Kafka. They show the planned changes as a table, and print the
    commands of Kafka's tools that apply them. --file writes a plan as CSV. Python API:
    streaming.plans, see docs/plans.md.

    \b
    Examples:
      coordinator-state plan reset payments --to-state-at 03:14 --tables tables --file plan.csv
      coordinator-state plan clone orders-v1 orders-v2 --tables tables --file plan.csv
      coordinator-state plan cleanup --tables tables
    """


@plan.command()
@click.argument("group")
@option(
    "--to-state-at",
    metavar="TIME",
    help="Restore the committed offsets that the group had at this time.",
)
@option("--to-time", metavar="TIME", help="Start at the records produced after this time.")
@option("--back", type=DURATION, help="Start at the records of the last 15m, 2h or 1d.")
@option(
    "--to-earliest-kept",
    is_flag=True,
    help="Start at the oldest records that are still in the logs.",
)
@option("--to-latest", is_flag=True, help="Skip all records, and start at the ends of the logs.")
@option(
    "--to-offset",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="Start at this offset in each partition.",
)
@option(
    "--shift-by",
    type=int,
    metavar="RECORDS",
    help="Add this number, which may be negative, to each committed offset.",
)
@option(
    "--from-file",
    metavar="FILE",
    help="Use the offsets of a CSV file with the columns topic, partition and offset.",
)
@topic_option
@tables_option
@written_options
def reset(
    *,
    group: str,
    to_state_at: str | None,
    to_time: str | None,
    back: float | None,
    to_earliest_kept: bool,
    to_latest: bool,
    to_offset: int | None,
    shift_by: int | None,
    from_file: str | None,
    topics: tuple[str, ...],
    tables: str,
    **written: Any,
) -> None:
    """Plan new committed offsets for GROUP: earlier ones, log offsets by time, or given ones.

    Shows how many records each partition replays, skips and has already deleted. Warns about
    members that must stop first, and about open transactions. Log start and log end offsets come
    from the samples in log_offsets. A partition is left unchanged if its samples do not reach back
    to the time. The commands for a share group are those of kafka-share-groups.sh, which sets start
    offsets, and for a streams group those of kafka-streams-groups.sh. Exits with status 1 and a
    warning if the group is unknown. Python API: streaming.plans.reset.

    \b
    Examples:
      coordinator-state plan reset payments --to-state-at 03:14 --tables tables
      coordinator-state plan reset payments --back 15m --topic orders --tables tables
      coordinator-state plan reset payments --to-time 14:00 --tables tables --file plan.csv
      coordinator-state plan reset payments --shift-by -100 --topic orders:3 --tables tables
    """
    from datetime import timedelta

    from streaming.plans.plan_file import read_plan
    from streaming.plans.reset import (
        TopicSelection,
        reset_to_earliest_kept,
        reset_to_latest,
        reset_to_offset,
        reset_to_offsets,
        reset_to_state,
        reset_to_time,
        shift,
    )

    values = (to_state_at, to_time, back, to_offset, shift_by, from_file)
    if sum((*(value is not None for value in values), to_earliest_kept, to_latest)) != 1:
        raise usage_error(
            "pass one of --to-state-at, --to-time, --back, --to-earliest-kept, --to-latest, "
            "--to-offset, --shift-by and --from-file"
        )
    selection = TopicSelection.of(topics)
    reader = opened_tables(tables, warns_if_stale=True)
    if to_state_at is not None:
        past = _past(tables, to_state_at)
        group_plan = reset_to_state(reader, past, group, selection)
    elif to_time is not None:
        group_plan = reset_to_time(reader, group, _past_time(to_time), selection)
    elif back is not None:
        group_plan = reset_to_time(
            reader, group, reader.moment - timedelta(seconds=back), selection
        )
    elif to_offset is not None:
        group_plan = reset_to_offset(reader, group, to_offset, selection)
    elif shift_by is not None:
        group_plan = shift(reader, group, shift_by, selection)
    elif from_file is not None:
        group_plan = reset_to_offsets(reader, group, read_plan(from_file, group), selection)
    elif to_latest:
        group_plan = reset_to_latest(reader, group, selection)
    else:
        group_plan = reset_to_earliest_kept(reader, group, selection)
    if group_plan is None:
        exit_without_rows(reader, group, f"{group} has no committed offsets")
    show_group_plan(group_plan, **written)


@plan.command()
@click.argument("group")
@click.argument("new")
@at_option
@topic_option
@tables_option
@written_options
def clone(
    *,
    group: str,
    new: str,
    at: str | None,
    topics: tuple[str, ...],
    tables: str,
    **written: Any,
) -> None:
    """Plan to copy the committed offsets of GROUP to NEW, which need not exist.

    Committed offsets of NEW in partitions that GROUP has not committed stay unchanged. Exits with
    status 1 and a warning if GROUP is unknown. Python API: streaming.plans.reset.

    \b
    Examples:
      coordinator-state plan clone orders-v1 orders-v2 --tables tables --file plan.csv
      coordinator-state plan clone orders-v1 orders-v2 --at 03:14 --tables tables
    """
    from streaming.plans.reset import TopicSelection
    from streaming.plans.reset import clone as plan_clone

    if group == new:
        raise usage_error("NEW and GROUP must be different groups")
    selection = TopicSelection.of(topics)
    reader = opened_tables(tables, warns_if_stale=True)
    source = reader if at is None else _past(tables, at)
    group_plan = plan_clone(reader, source, group, new, selection)
    if group_plan is None:
        exit_without_rows(source, group, f"{group} has no committed offsets")
    show_group_plan(group_plan, **written)


@plan.command()
@option(
    "--unused-for",
    type=DURATION,
    default="7d",
    help="Minimum time since the last activity of a group without members.",
)
@tables_option
@servers_option
@output_option
def cleanup(
    *,
    unused_for: float,
    tables: str,
    bootstrap_servers: str | None,
    output: Output,
) -> None:
    """List dead groups, offsets of deleted topics, and orphans, with the commands to delete them.

    A dead group has no members, and has had no commits or group records for --unused-for. Each row
    shows the last activity, the last known client, and a command or the reason why there is none.
    A group with members never gets a command. Python API: streaming.plans.cleanup.

    \b
    Examples:
      coordinator-state plan cleanup --tables tables
      coordinator-state plan cleanup --unused-for 30d --tables tables --output json
    """
    from datetime import timedelta

    from streaming.plans.cleanup import Leftover
    from streaming.plans.cleanup import cleanup as plan_cleanup

    reader = opened_tables(tables, warns_if_stale=True)
    leftovers = plan_cleanup(reader, timedelta(seconds=unused_for), bootstrap_servers)
    # The commands are below the table: they are long, and to be copied.
    columns = [field.name for field in fields(Leftover) if field.name != "command"]
    output.rows(map(asdict, leftovers), columns)
    if not leftovers:
        write_note("nothing to clean up")
    output.commands([row.command for row in leftovers if row.command is not None])
    exit_if_nothing_is_current(reader)


@plan.command()
@at_option
@tables_option
@option("--file", metavar="FILE", required=True, help="The CSV file to write.")
@force_option
@servers_option
@output_option
def backup(
    *,
    at: str | None,
    tables: str,
    file: str,
    force: bool,
    bootstrap_servers: str | None,
    output: Output,
) -> None:
    """Write the committed offsets of all groups to a file that Kafka's tool can restore.

    The file has no offsets of share and streams groups, which need other tools, and none of deleted
    topics. `plan diff` compares the file with later tables. Python API: streaming.plans.backup.

    \b
    Examples:
      coordinator-state plan backup --tables tables --file backup.csv
      coordinator-state plan backup --at 03:14 --tables tables --file backup.csv
    """
    from coordinator_state.insight.group_status import count_text
    from coordinator_state.insight.kafka_commands import reset_commands
    from streaming.plans.backup import backup as plan_backup
    from streaming.plans.plan_file import plan_text, write_plan

    newest = opened_tables(tables, warns_if_stale=True)
    reader = newest if at is None else _past(tables, at)
    exit_if_nothing_is_current(reader)
    offset_backup = plan_backup(reader, newest)
    for sentence in offset_backup.left_out:
        write_note(sentence)
    if not offset_backup.offsets:
        raise ConfigurationError("no group has committed offsets: nothing to back up")
    write_plan(file, plan_text(offset_backup.offsets, with_groups=True), overwrite=force)
    commands = [
        line
        for pair in reset_commands(offset_backup.group_ids, file, bootstrap_servers)
        for line in pair
    ]
    offsets, groups = len(offset_backup.offsets), len(offset_backup.group_ids)
    output.result(
        {
            "at": reader.moment,
            "file": file,
            "groups": groups,
            "offsets": offsets,
            "left_out": offset_backup.left_out,
            "commands": commands,
        },
        f"{file}: {count_text(offsets, 'committed offset')} of {count_text(groups, 'group')} as of "
        f"{reader.moment:%Y-%m-%d %H:%M:%S} UTC",
    )
    output.commands(commands)


@plan.command()
@click.argument("file")
@option("--group", metavar="GROUP", help="Group of FILE, if FILE has no column with the group.")
@tables_option
@output_option
def diff(*, file: str, group: str | None, tables: str, output: Output) -> None:
    """Compare the newest committed offsets with those of a plan or backup FILE.

    Shows offsets that differ, offsets that are missing in the tables and, for a backup, extra ones.
    Exits with status 1 if there are any. Also reads files of kafka-consumer-groups.sh --export.
    Python API: streaming.plans.backup.

    \b
    Examples:
      coordinator-state plan diff plan.csv --group payments --tables tables
      coordinator-state plan diff backup.csv --tables tables --output json
    """
    from streaming.plans.backup import OffsetDifference, Outcome, plan_difference
    from streaming.plans.plan_file import read_plan

    offsets = read_plan(file, group)
    reader = opened_tables(tables, warns_if_stale=True)
    difference = plan_difference(reader, offsets, group)
    rows = [asdict(row) for row in difference.rows if row.outcome != Outcome.EQUAL]
    output.result(
        {"is_equal": difference.is_equal, **difference.counts, "differences": rows},
        difference.summary,
    )
    output.details(rows, [field.name for field in fields(OffsetDifference)])
    exit_if_nothing_is_current(reader)
    if not difference.is_equal:
        exit_with_difference()


def _past(tables: str, text: str) -> TableReader:
    """The tables at an earlier time, with a note if they are rebuilt."""
    return opened_tables(tables, _past_time(text))


def _past_time(text: str) -> datetime:
    from streaming.tables.as_of import parse_time

    moment = parse_time(text)
    if moment > utc_now():
        raise ConfigurationError(f"{text} is in the future")
    return moment


_COLUMNS: Final = (
    *("topic", "partition", "from_offset", "to_offset"),
    *("records_replayed", "records_skipped", "records_deleted", "note"),
)


def show_group_plan(
    plan: GroupPlan, *, output: Output, file: str | None, force: bool, bootstrap_servers: str | None
) -> None:
    """Print the plan for a group, write it to a file if one is named, and print its commands.

    Raises:
        ConfigurationError: the file cannot be written, or no command line can name the group.
    """
    from streaming.plans.plan_file import plan_text, write_plan

    commands: list[str] = []
    if file is not None and plan.to_offsets:
        commands = plan.commands(file, bootstrap_servers)
        write_plan(file, plan_text(plan.to_offsets, with_groups=False), overwrite=force)
    if file is not None and not plan.to_offsets:
        raise ConfigurationError(
            f"{file} is not written: no partition of {plan.group_id} can be planned "
            f"({'; '.join(sorted({row.note for row in plan.offsets})) or 'it has no partitions'})"
        )
    warnings = [*plan.obstacles.warnings, *plan.warnings]
    offsets = [asdict(planned) for planned in plan.offsets]
    output.result(
        {
            "group_id": plan.group_id,
            "goal": plan.goal,
            "offsets": offsets,
            "members": [member._asdict() for member in plan.obstacles.members],
            "warnings": warnings,
            "file": file if commands else None,
            "commands": commands,
        },
        plan.summary,
    )
    output.details(offsets, _COLUMNS)
    output.commands(commands)
    for warning in warnings:
        write_warning(warning)
    if not plan.to_offsets:
        write_note("No partition can be planned; the notes say why.")
    elif file is None:
        write_note("Not written: --file FILE writes this plan and prints the commands for it.")
