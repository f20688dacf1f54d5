"""The output of the commands `plan`: a group's plan, its file, and the commands that execute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import click

from streaming.errors import ConfigurationError
from streaming.run.stderr import write_note, write_warning
from streaming.views.output import output_of

if TYPE_CHECKING:
    from streaming.plans.group_plan import GroupPlan

_COLUMNS: Final = (
    *("topic", "partition", "from_offset", "to_offset"),
    *("records_replayed", "records_skipped", "records_deleted", "note"),
)


def show_group_plan(
    plan: GroupPlan, *, output: str, file: str | None, force: bool, bootstrap_servers: str | None
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
    shown = output_of(output)
    shown.result(
        {
            "group_id": plan.group_id,
            "goal": plan.goal,
            "offsets": [asdict(planned) for planned in plan.offsets],
            "members": [member._asdict() for member in plan.obstacles.members],
            "warnings": warnings,
            "file": file if commands else None,
            "commands": commands,
        },
        plan.summary,
    )
    if output == "text":
        shown.rows(map(asdict, plan.offsets), _COLUMNS)
        show_commands(commands)
    for warning in warnings:
        write_warning(warning)
    if not plan.to_offsets:
        write_note("No partition can be planned; the notes say why.")
    elif file is None:
        write_note("Not written: --file FILE writes this plan and prints the commands for it.")


def show_commands(commands: Sequence[str]) -> None:
    """Print command lines as they are, to be copied; their words are quoted for a terminal, too."""
    for line in ["", *commands] if commands else []:
        click.echo(line)
