"""The command `coordinator-state run`; its Python API is `streaming.run.query.run_query`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import click
from click.core import ParameterSource

from streaming.cli.options import (
    Choice,
    Command,
    MappingOption,
    bootstrap_servers_option,
    history_retention_option,
    kafka_option,
    log_partitions_option,
    option,
    options,
    source_of,
    usage_error,
)
from streaming.cli.signals import stop_on_signals
from streaming.run.settings import RunSettings
from streaming.run.stderr import is_live, write_dated_note

_tables_option = option(
    "--tables",
    metavar="DIR|CATALOG.SCHEMA",
    required=True,
    help="Tables folder: a path, or the address of an object store; or a schema of a Spark "
    "catalog, which is created if it is missing.",
)
_OPTIONS_OF_OTHER_COMMANDS = {
    "bootstrap_servers": bootstrap_servers_option,
    "tables": _tables_option,
    "history_retention": history_retention_option(),
    "log_partitions": log_partitions_option,
    "kafka": kafka_option,
}
_MAPPINGS = {"status_rules": "LIMIT=VALUE"}
"""Settings with several values by name."""


def setting_options(command: Command) -> Command:
    """Give a command an option for each field of `RunSettings`."""
    settings = RunSettings.model_json_schema()["properties"]
    return options(
        *(
            _OPTIONS_OF_OTHER_COMMANDS.get(name) or _option(name, **setting)
            for name, setting in settings.items()
        )
    )(command)


def _option(
    name: str, *, description: str, default: Any, metavar: str | None = None, **schema: Any
) -> Callable[[Command], Command]:
    """An option, from the JSON schema of a setting."""
    # The description of a setting without a default states the behaviour without a value.
    shown = None if default == "" else default
    if name in _MAPPINGS:
        return option(
            f"--{name.replace('_', '-')}",
            cls=MappingOption,
            multiple=True,
            metavar=_MAPPINGS[name],
            help=description,
        )
    attributes: dict[str, Any] = {"default": shown, "metavar": metavar}
    value: dict[str, Any] = schema.get("anyOf", [schema])[0]
    match value:
        case {"type": "boolean"}:
            attributes = {"is_flag": True}
        case {"type": "integer"}:
            attributes["type"] = click.IntRange(value.get("minimum"), value.get("maximum"))
        case {"type": "array", "items": items}:
            attributes = {"multiple": True, "metavar": items.get("metavar")}
        case {"enum": choices}:
            attributes["type"] = Choice(choices)
    declared = f"--{name.replace('_', '-')}"
    return option(declared, help=description, **attributes)


@click.command()
@setting_options
@option("--silent", is_flag=True, help="Do not show progress.")
@click.pass_context
def run(ctx: click.Context, /, *, silent: bool, **given: Any) -> None:
    """Replay __consumer_offsets into Delta tables continuously.

    The first run starts at the log start. Later runs continue where the tables end. On Ctrl-C or
    SIGTERM the current micro-batch is finished first. Progress and one line per micro-batch go to
    stderr. docs/metrics.md describes the endpoints of --http-port. Python API:
    streaming.run.query.run_query(RunSettings(...)).

    \b
    Examples:
      coordinator-state run --bootstrap-servers localhost:9092 --tables tables
      coordinator-state run --bootstrap-servers localhost:9092 --tables tables --available-now
      coordinator-state run --config run.toml --http-port 8000 --log-format json
      coordinator-state run --config run.toml --trigger 5s --history all
    """
    from streaming.run.progress_display import ProgressDisplay
    from streaming.run.query import run_query

    sources = {name: ctx.get_parameter_source(name) for name in ("trigger", "available_now")}
    if set(sources.values()) == {ParameterSource.COMMANDLINE}:
        raise usage_error("--trigger and --available-now exclude each other")
    settings = RunSettings.checked(named=partial(source_of, ctx), **given)
    display = nullcontext() if silent else ProgressDisplay(is_terminal=is_live())
    with stop_on_signals() as stop, display as on_progress:
        run_query(settings, on_progress=on_progress, stop=stop)
    if stop.is_set():
        write_dated_note("stopped; the next start continues after the last finished micro-batch")
