"""The command line: the group of commands, their shared options, and error handling.

Exit status: 0 success, 1 a difference, a firing alert or an unknown group, 2 bad usage or
configuration, 3 any other failure, 130 interrupted. Logging is configured only here.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from streaming.cli.options import (
    CONFIG_FILE,
    Choice,
    StateOption,
    misspelled_variables,
    read_config_file,
    usage_message,
)
from streaming.errors import ConfigurationError, did_you_mean, first_line
from streaming.run.stderr import LOG_FORMATS, StderrHandler, write_error, write_warning

EXIT_BAD_USAGE = 2
EXIT_FAILED = 3
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
"""The exit status that a shell reports for a process killed by SIGPIPE."""

COMMANDS = {
    "alert": "alert",
    "api": "servers",
    "broker": "local",
    "dashboard": "servers",
    "decode": "decode",
    "demo": "local",
    "expiring-offsets": "group_questions",
    "explain": "group_questions",
    "maintain": "tables_upkeep",
    "mcp": "servers",
    "metrics": "servers",
    "offsets": "group_questions",
    "partition-for": "group_questions",
    "plan": "plan",
    "reload": "tables_upkeep",
    "run": "run",
    "show": "show",
    "simulate": "local",
    "sql": "sql",
    "verify": "verify",
}
"""The module of `streaming.cli` that defines each command, under its name with `_` for `-`."""

STREAMING_EXTRA = {
    "anyio",
    "delta",
    "deltalake",
    "duckdb",
    "jinja2",
    "kafka",
    "markupsafe",
    "mcp",
    "platformdirs",
    "prometheus_client",
    "py4j",
    "pyspark",
    "requests",
    "rich",
    "ruamel",
    "starlette",
    "tenacity",
    "uvicorn",
}
"""Modules that only `pip install 'coordinator-state[streaming]'` installs."""

_EXTRAS = {**dict.fromkeys(STREAMING_EXTRA, "streaming"), "openlineage": "streaming,lineage"}
"""The extras that install a module."""

_OWN_LOGGERS = ("coordinator_state", "streaming")
_META = "coordinator_state"
logger = logging.getLogger(__name__)


class StateGroup(click.Group):
    """Imports a command at its first use, and reports every error in one line."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _ctx: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS and name not in self.commands:
            module = import_module(f"streaming.cli.{COMMANDS[name]}")
            command = getattr(module, name.replace("-", "_"))
            for leaf in _leaf_commands(command):
                leaf.params.extend(SHARED_OPTIONS)
            self.add_command(command, name)
        return self.commands.get(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            ctx.fail(f"there is no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)

    def make_context(self, *arguments: Any, **attributes: Any) -> click.Context:
        with _usage_errors_in_one_line():
            return super().make_context(*arguments, **attributes)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _usage_errors_in_one_line():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise
        except KeyboardInterrupt:
            status = EXIT_INTERRUPTED
        except BrokenPipeError:
            # The interpreter flushes stdout at exit, which would raise the same error again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = EXIT_BROKEN_PIPE
        except Exception as error:
            message, status = _verdict(error)
            write_error(message)
            logger.debug("traceback of this error:", exc_info=True)
        ctx.exit(status)


class _OneLineError(click.ClickException):
    """A usage error, shown without click's lines about the usage."""

    exit_code = EXIT_BAD_USAGE

    def show(self, file: Any = None) -> None:
        del file
        write_error(self.message)


@contextmanager
def _usage_errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.ClickException as error:
        raise _OneLineError(usage_message(error)) from error


def _verdict(error: Exception) -> tuple[str, int]:
    """The message for an error, and the exit status."""
    if isinstance(error, ConfigurationError):
        return str(error), EXIT_BAD_USAGE
    package = (getattr(error, "name", None) or "").partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and (extras := _EXTRAS.get(package)):
        needed = "--openlineage" if "lineage" in extras else "this command"
        return (
            f"{needed} needs {error.name}: pip install 'coordinator-state[{extras}]'",
            EXIT_BAD_USAGE,
        )
    said = first_line(error) if str(error).strip() else "no message"
    return f"{type(error).__name__}: {said}", EXIT_FAILED


def _leaf_commands(command: click.Command | None) -> list[click.Command]:
    """The command, or the commands of a nested group."""
    if isinstance(command, click.Group):
        return list(command.commands.values())
    return [] if command is None else [command]


def _remember(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    """Keep the value of an eager option for `_configure_logging`."""
    ctx.meta[f"{_META}.{option.name}"] = value


def _configure_logging(ctx: click.Context, _option: click.Parameter, level: str) -> None:
    """Set the level of our own loggers; libraries log only with `--verbose`.

    Libraries report failures by exceptions. kafka-python's warnings about a briefly unreachable
    broker would hide the lines that matter.
    """
    verbose = ctx.meta[f"{_META}.verbose"]
    root = logging.getLogger()
    root.handlers[:] = [StderrHandler(ctx.meta[f"{_META}.log_format"])]
    root.setLevel(logging.INFO if verbose else logging.CRITICAL)
    for name in _OWN_LOGGERS:
        logging.getLogger(name).setLevel(logging.DEBUG if verbose else level.upper())
    for warning in misspelled_variables(
        lambda: {str(parameter.envvar) for parameter in _parameters(ctx)}
    ):
        write_warning(warning)


def _parameters(ctx: click.Context) -> Iterator[click.Parameter]:
    """The options and arguments of all commands."""
    for name in COMMANDS:
        for leaf in _leaf_commands(cli.get_command(ctx, name)):
            yield from leaf.params


def _use_config_file(ctx: click.Context, _option: click.Parameter, path: Path | None) -> None:
    if path is not None:
        names = {str(parameter.name) for parameter in _parameters(ctx)}
        ctx.default_map = read_config_file(path, names)
        ctx.meta[CONFIG_FILE] = path


SHARED_OPTIONS = (
    StateOption(
        ["--config"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        is_eager=True,
        expose_value=False,
        callback=_use_config_file,
        help="TOML file with options by name.",
    ),
    StateOption(
        ["--verbose"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_remember,
        help="Log debug messages and those of libraries, and show the traceback of an error.",
    ),
    StateOption(
        ["--log-format"],
        type=Choice(list(LOG_FORMATS)),
        default="text",
        is_eager=True,
        expose_value=False,
        callback=_remember,
        help="Format of the lines on stderr: text, or one JSON object per line with the details as "
        "fields.",
    ),
    StateOption(
        ["--log-level"],
        type=Choice(["debug", "info", "warning", "error"]),
        default="info",
        expose_value=False,
        callback=_configure_logging,
        help="Lowest level that is logged on stderr.",
    ),
)


@click.group(cls=StateGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="coordinator-state")
def cli() -> None:
    """Replay Kafka's __consumer_offsets into Delta tables with the group coordinator's state.

    Every option can also be set as COORDINATOR_STATE_<OPTION> in the environment, or in a TOML file
    given with --config. The command line overrides the environment, and the environment overrides
    the file. Data goes to stdout, everything else to stderr. Exit status: 0 success, 1 a
    difference, a firing alert or an unknown group, 2 bad usage or configuration, 3 any other
    failure, 130 interrupted. Servers exit with 0 on Ctrl-C.
    """


def main() -> None:
    """Run the console script."""
    if sys.stdout is None:
        # The shell closed it (`>&-`).
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process lives
    cli(prog_name="coordinator-state")
