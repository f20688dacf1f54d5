"""Options that commands share, and the sources of their values.

Every option can also be set as the environment variable `COORDINATOR_STATE_<OPTION>` and as a key
of the TOML file that `--config` names. The command line wins over the environment, and the
environment over the file. This module needs only click, because the commands of the pure core work
without the `streaming` extra.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click
from click.core import ParameterSource

from coordinator_state.insight.group_status import StatusRules
from streaming.errors import ConfigurationError, did_you_mean
from streaming.kafka.secrets import behind_environment, is_secret, other_ways
from streaming.tables.durations import (
    DEFAULT_HISTORY_RETENTION,
    DURATION_FORM,
    parse_duration,
)
from streaming.tables.locations import is_schema_name
from streaming.tables.status_rules import parse_status_rules
from streaming.views.output import OUTPUTS, Output

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Command = TypeVar("Command", bound=Callable[..., Any])

ENVIRONMENT_PREFIX = "COORDINATOR_STATE_"
EXIT_DIFFERENCE = 1
"""The exit status of a difference, a firing alert or an unknown group."""
CONFIG_FILE = "coordinator_state.config_file"
"""The key of the config file's path in `click.Context.meta`."""


class StateOption(click.Option):
    """An option that can also be set in the environment; `--help` shows its default."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **{"show_default": True, **attributes})
        name = self.opts[0].lstrip("-").replace("-", "_")
        self.envvar = f"{ENVIRONMENT_PREFIX}{name.upper()}"


class MappingOption(StateOption):
    """Values by name, merged from the file, the environment and the command line.

    On the command line they are `--option NAME=VALUE`, in the environment a JSON object, in the
    file a table.
    """

    def consume_value(
        self, ctx: click.Context, opts: Mapping[str, Any]
    ) -> tuple[Any, ParameterSource]:
        name = str(self.name)
        in_file = ctx.lookup_default(name) or {}
        merged = dict(_mapping(in_file, f"[{name}] of the config file"))
        in_environment = self.resolve_envvar_value(ctx)
        if in_environment is not None:
            merged.update(_mapping(_json_of(in_environment), str(self.envvar)))
        merged = self.without_secrets(merged)
        given = opts.get(name)
        if not isinstance(given, (list, tuple)):
            return merged, ParameterSource.DEFAULT_MAP
        for number, pair in enumerate(given, 1):
            key, equals, value = pair.partition("=")
            if not equals or not key:
                # The text is not shown: it may be a password whose name was forgotten.
                raise click.BadParameter(
                    f"number {number} is not {self.metavar or 'KEY=VALUE'}", ctx=ctx, param=self
                )
            self.check(ctx, key, value)
            merged[key] = value
        return merged, ParameterSource.COMMANDLINE

    def type_cast_value(self, _ctx: click.Context, value: Any) -> Any:
        return value

    def without_secrets(self, values: dict[str, str]) -> dict[str, str]:
        """The values of the file and of the environment, whose secrets are hidden."""
        return values

    def check(self, ctx: click.Context, name: str, value: str) -> None:
        """Refuse a value of the command line by an exception."""


class KafkaPropertiesOption(MappingOption):
    """Kafka client properties.

    A secret on the command line is refused, because every process of the machine can read it. A
    secret in the file or the environment is moved to an environment variable, and the property
    names that variable, because Spark shows its options.
    """

    def without_secrets(self, values: dict[str, str]) -> dict[str, str]:
        return dict(behind_environment(values))

    def check(self, ctx: click.Context, name: str, value: str) -> None:
        if is_secret(name, value):
            raise click.BadParameter(
                f"{name} is a secret, and other users of this machine can read the command "
                f"line: {other_ways(name)}, or set it in [kafka] of the config file or in "
                f"{self.envvar}",
                ctx=ctx,
                param=self,
            )


class Choice(click.Choice):
    """One of some words; the error about another word names similar ones."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        message = super().get_invalid_choice_message(value=value, ctx=ctx)
        return f"{message.rstrip('.')}{did_you_mean(str(value), map(str, self.choices))}"

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Nothing more: the error names the argument by its words."""
        del param, ctx
        return ""


class OutputChoice(Choice):
    """The name of a format; the command gets its `Output`."""

    def __init__(self, outputs: Mapping[str, type[Output]]) -> None:
        super().__init__(list(outputs))
        self._outputs = outputs

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Output:
        return self._outputs[super().convert(value, param, ctx)]()


class Parsed(click.ParamType):
    """A value that a function parses; its `ValueError` refuses the text."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _duration_s(text: str) -> float:
    seconds = parse_duration(text).total_seconds()
    if not seconds:
        raise ValueError(f"{text!r} is not a duration such as {DURATION_FORM}")
    return seconds


def _log_partitions(text: str) -> list[int]:
    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isdecimal() for number in numbers):
        raise ValueError(f"{text!r} is not N[,N…]")
    return [int(number) for number in numbers]


DURATION: Final = Parsed("duration", _duration_s)
"""Seconds, from a duration such as 5s or "5 seconds"."""


option = partial(click.option, cls=StateOption)


def options(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """One decorator that adds several options, in this order."""

    def add(command: Command) -> Command:
        # A decorator puts its option before the existing ones.
        return reduce(
            lambda decorated, decorator: decorator(decorated), reversed(decorators), command
        )

    return add


def require_location(
    ctx: click.Context, parameter: click.Parameter, tables: str | None
) -> str | None:
    """Refuse the name of a schema: only `run` has a Spark session, which knows its location."""
    if tables is not None and is_schema_name(tables):
        raise click.BadParameter(
            f"there is no folder {tables}; for a schema of a Spark catalog, pass the location that "
            "`run` logs at its start",
            ctx=ctx,
            param=parameter,
        )
    return tables


optional_tables_option = partial(
    option,
    "--tables",
    metavar="DIR",
    callback=require_location,
    help="Tables folder: a path, or the address of an object store.",
)
tables_option = optional_tables_option(required=True)
optional_bootstrap_servers_option = partial(
    option,
    "--bootstrap-servers",
    metavar="HOST:PORT[,…]",
    help="Brokers for the first connection to the cluster.",
)
bootstrap_servers_option = optional_bootstrap_servers_option(required=True)
kafka_option = click.option(
    "--kafka",
    cls=KafkaPropertiesOption,
    multiple=True,
    metavar="KEY=VALUE",
    help="Kafka client property (TLS, SASL, …); repeatable. Give a secret as a file or an "
    "environment variable: sasl.plain.password.file=PATH, sasl.plain.password.env=VARIABLE.",
)
port_option = partial(
    option,
    "--port",
    type=click.IntRange(min=0, max=65_535),
    help="Port to listen on; 0 takes any free port.",
)
"""For commands that serve HTTP; each sets its own `default`."""
as_of_option = option(
    "--as-of",
    metavar="TIME|VERSION",
    help="Read the tables as of an earlier time (5m, 03:14, yesterday 14:00, "
    "2026-11-21T03:14:00Z), or of a version of load_progress. A time without a zone is UTC.",
)
consistent_option = option(
    "--consistent/--newest",
    default=True,
    help="Read all tables as of one finished micro-batch, or the newest version of each, which may "
    "include a partly written micro-batch.",
)
history_retention_option = partial(
    option,
    "--history-retention",
    metavar="INTERVAL",
    default=DEFAULT_HISTORY_RETENTION,
    help="How long offset_commits, group_events and log_offsets are kept; at least a day.",
)
log_partitions_option = option(
    "--log-partitions",
    type=Parsed("log partitions", _log_partitions),
    metavar="N[,N…]",
    help="Log partitions to use. [default: all]",
)
output_option = option(
    "--output",
    type=OutputChoice(OUTPUTS),
    default="text",
    help="Aligned text, or JSON with one object per line.",
)


def usage_error(message: str) -> click.UsageError:
    """An error about the options of the current command, which names its help."""
    return click.UsageError(message, click.get_current_context(silent=True))


def exit_with_difference() -> NoReturn:
    """End the command with status 1."""
    raise click.exceptions.Exit(EXIT_DIFFERENCE)


def source_of(ctx: click.Context, name: str) -> str:
    """The place where a parameter was set, as its user writes it: `--trigger`, for example.

    If it was set in the environment or in the config file, the name is the one there.
    """
    (parameter,) = (param for param in ctx.command.params if param.name == name)
    source = ctx.get_parameter_source(name)
    if source is ParameterSource.ENVIRONMENT:
        return str(parameter.envvar)
    if source is ParameterSource.DEFAULT_MAP and CONFIG_FILE in ctx.meta:
        return f"{name} in {ctx.meta[CONFIG_FILE]}"
    is_option = isinstance(parameter, click.Option)
    return parameter.opts[0] if is_option else parameter.human_readable_name


_PLAIN_WORDS = {
    "is not a valid integer range": "is not a whole number",
    "is not a valid float range": "is not a number",
}


def usage_message(error: click.ClickException) -> str:
    """One line for a usage error: the wrong value with its source, and how to get help."""
    message = error.format_message()
    if type(error) is click.BadParameter and error.ctx is not None and error.param is not None:
        message = f"{source_of(error.ctx, str(error.param.name))}: {error.message}"
    for words, plain in _PLAIN_WORDS.items():
        message = message.replace(words, plain)
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    if ctx is None:
        return message
    end = "" if message.endswith("?") else "."
    return f"{message.rstrip('.')}{end} For help: {ctx.command_path} --help"


def misspelled_variables(known: Callable[[], Collection[str]]) -> list[str]:
    """A warning for each environment variable that is nearly the name of an option.

    Other variables with the prefix may belong to other programs, such as docker compose.
    """
    given = [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]
    variables = known() if given else ()
    return [
        f"no command has an option for the environment variable {name}{hint}"
        for name in sorted(given)
        if name not in variables
        and (hint := did_you_mean(name, variables, ignored=ENVIRONMENT_PREFIX))
    ]


def read_config_file(path: Path, known: set[str]) -> dict[str, Any]:
    """Read options from a TOML file; a dash in a name means an underscore.

    Raises:
        ConfigurationError: the file is unreadable or not TOML, or has a key that is not an option
            of any command.
    """
    options = _options_in(path)
    unknown = sorted(set(options) - known)
    if unknown:
        raise ConfigurationError(f"config file {path}: unknown option {', '.join(unknown)}")
    return options


def status_rules_in(path: Path) -> StatusRules:
    """The limits of statuses in a config file of `run`.

    Raises:
        ConfigurationError: the file is unreadable or not TOML, has no limits, or a wrong one.
    """
    limits = _options_in(path).get("status_rules")
    if not isinstance(limits, dict):
        raise ConfigurationError(f"config file {path} has no table [status_rules]")
    try:
        return parse_status_rules(limits)
    except ValueError as error:
        raise ConfigurationError(f"config file {path}: status_rules: {error}") from error


def parse_toml(text: str) -> dict[str, Any]:
    """The content of a TOML text.

    Raises:
        ValueError: the text is not TOML.
    """
    return tomllib.loads(text)


def _options_in(path: Path) -> dict[str, Any]:
    try:
        content = parse_toml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ConfigurationError(f"cannot read the config file {path}: it is not UTF-8") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"cannot read the config file {path}: {error}") from None
    return {name.replace("-", "_"): value for name, value in content.items()}


def _json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _mapping(value: Any, where: str) -> dict[str, str]:
    """Values as text, by name; TOML reads an unquoted dotted name as nested tables."""
    if not isinstance(value, dict):
        # The value is not shown: it may hold a secret.
        raise ConfigurationError(f"{where} is not a mapping of names to values")
    flat: dict[str, str] = {}
    for name, member in value.items():
        if isinstance(member, dict):
            flat |= {f"{name}.{inner}": text for inner, text in _mapping(member, where).items()}
        else:
            flat[name] = str(member).lower() if isinstance(member, bool) else str(member)
    return flat
