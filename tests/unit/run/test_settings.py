from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import streaming.run.query
from streaming.cli.main import cli
from streaming.errors import ConfigurationError
from streaming.run.settings import RunSettings
from streaming.tables.durations import parse_duration
from tests.support.clients.command_line import COMMANDS

NEEDED: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "tables": "there/tables"}
ON_COMMAND_LINE = ["--bootstrap-servers", "localhost:9092", "--tables", "there/tables"]

RunWith = Callable[..., RunSettings]


@pytest.fixture
def run_with(monkeypatch: pytest.MonkeyPatch) -> RunWith:
    """Run the command with a query that only takes down its settings."""

    def run_with(
        *arguments: str, environment: dict[str, str] | None = None, needed: bool = True
    ) -> RunSettings:
        seen: list[RunSettings] = []
        monkeypatch.setattr(
            streaming.run.query, "run_query", lambda settings, **_rest: seen.append(settings)
        )
        command_line = ["run", *(ON_COMMAND_LINE if needed else []), *arguments]
        result = CliRunner().invoke(cli, command_line, env=environment)
        assert result.exit_code == 0, result.output
        (settings,) = seen
        return settings

    return run_with


def failing_run(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    result = CliRunner().invoke(cli, ["run", *ON_COMMAND_LINE, *arguments], env=environment)
    assert result.exit_code == 2
    assert result.stdout == ""
    return result


def test_the_command_line_and_the_python_api_have_the_same_defaults(run_with: RunWith) -> None:
    assert run_with() == RunSettings(**NEEDED)


def test_every_setting_is_an_option_and_every_option_a_setting_or_of_the_terminal() -> None:
    options = {str(option.name) for option in COMMANDS["run"].params}

    assert options >= set(RunSettings.model_fields)
    of_the_terminal = {"silent", "config", "verbose", "log_format", "log_level"}
    assert options - set(RunSettings.model_fields) == of_the_terminal


def test_an_option_has_the_type_the_default_and_the_range_of_its_setting() -> None:
    options: dict[str | None, Any] = {o.name: o for o in COMMANDS["run"].params}

    assert isinstance(options["history"].type, click.Choice)
    assert (options["history"].type.choices, options["history"].default) == (
        ("off", "sampled", "all"),
        "sampled",
    )
    port = options["http_port"].type
    assert isinstance(port, click.IntRange)
    assert (port.min, port.max) == (0, 65_535)
    assert options["lag_interval"].metavar == "INTERVAL"
    assert options["catalog"].metavar == "[CATALOG.]DATABASE"
    assert options["available_now"].is_flag


def test_settings_do_not_show_kafka_properties() -> None:
    settings = RunSettings(**NEEDED, kafka={"client.id": "hush"})

    assert "hush" not in f"{settings!r} {settings}"


@pytest.mark.parametrize("trigger", ["5s", "5 seconds", "5 s"])
def test_both_notations_of_durations_are_accepted(trigger: str) -> None:
    settings = RunSettings.checked(**NEEDED, trigger=trigger, history_retention="36h")

    assert parse_duration(settings.trigger) == timedelta(seconds=5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": None}, "--tables is missing"),
        ({"bootstrap_servers": "localhost"}, "--bootstrap-servers: 'localhost' is not HOST:PORT"),
        ({"bootstrap_servers": "a:1,b:99999"}, "'b:99999' is not HOST:PORT"),
        ({"trigger": "soon"}, "--trigger: 'soon' is not a duration such as 60s, 5m, 1h or 7d"),
        ({"lag_interval": "never"}, "is not a duration such as 60s, 5m, 1h or 7d, or off"),
        ({"history_retention": "90 minutes"}, "is less than a day: history is deleted in whole"),
        ({"history_retention": "0 days"}, "--history-retention: '0 days' is less than a day"),
        ({"lag_interval": f"{10**20} days"}, "days' is too long, or off"),
        ({"catalog": "a b"}, "--catalog: 'a b' is not DATABASE or CATALOG.DATABASE"),
        ({"max_records_per_trigger": 0}, "--max-records-per-trigger: Input should be greater"),
        ({"log_partitions": [-1]}, "--log-partitions: Input should be greater"),
        ({"colour": "red"}, "there is no option --colour"),
    ],
)
def test_a_setting_that_is_wrong_is_named_in_one_line(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RunSettings.checked(**NEEDED | options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ipv6_addresses_and_lists_of_brokers_are_taken() -> None:
    servers = "[::1]:9092, broker-2:9093"

    assert RunSettings.checked(**NEEDED | {"bootstrap_servers": servers}) is not None


def test_command_line_before_environment_before_file(run_with: RunWith, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('trigger = "1 hour"\nsemantics = "scala"\nhistory = "off"\n')
    environment = {
        "COORDINATOR_STATE_CONFIG": str(file),
        "COORDINATOR_STATE_TRIGGER": "2 minutes",
        "COORDINATOR_STATE_SEMANTICS": "coordinator",
    }

    settings = run_with("--trigger", "3 seconds", environment=environment)

    assert settings.trigger == "3 seconds"
    assert settings.semantics == "coordinator"
    assert settings.history == "off"


def test_a_file_may_set_everything(run_with: RunWith, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'bootstrap-servers = "localhost:9092"\ntables = "there/tables"\n'
        "max_records_per_trigger = 5\navailable_now = true\nlog_partitions = '0,7'\n"
        "timeout = 5  # of verify\n"
        '[kafka]\n"security.protocol" = "SSL"\nssl.check.hostname = false\n'
    )

    settings = run_with("--config", str(file), needed=False)

    assert settings == RunSettings(
        **NEEDED,
        max_records_per_trigger=5,
        available_now=True,
        log_partitions=(0, 7),
        kafka={"security.protocol": "SSL", "ssl.check.hostname": "false"},
    )


def test_a_secret_that_spark_would_show_is_refused() -> None:
    for name, value in (("sasl.plain.password", "hush"), ("proxy.url", "http://me:hush@proxy:1")):
        with pytest.raises(
            ConfigurationError, match=f"--kafka: .*{name}.file=.* {name}.env="
        ) as no:
            RunSettings.checked(**NEEDED, kafka={name: value})
        assert "hush" not in str(no.value)


def test_kafka_properties_are_merged_key_by_key(
    run_with: RunWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "COORDINATOR_STATE_KAFKA_SASL_PLAIN_PASSWORD"
    monkeypatch.setenv(variable, "of before")
    file = tmp_path / "run.toml"
    file.write_text('[kafka]\n"sasl.plain.password" = "hush"\n"client.id" = "a"\nx = "file"\n')

    settings = run_with(
        "--config",
        str(file),
        "--kafka",
        "client.id=c",
        environment={"COORDINATOR_STATE_KAFKA": '{"client.id": "b", "x": "environment"}'},
    )

    assert settings.kafka == {
        "sasl.plain.password.env": variable,
        "client.id": "c",
        "x": "environment",
    }
    assert os.environ[variable] == "hush"


@pytest.mark.parametrize(
    "name", ["sasl.plain.password", "ssl_key_password", "sasl.jaas.config", "ssl.keystore.key"]
)
def test_a_secret_on_the_command_line_is_refused_and_not_repeated(name: str) -> None:
    result = failing_run("--kafka", f"{name}=hush")

    assert f"{name} is a secret" in result.stderr
    assert f"use {name}.file=PATH or {name}.env=VARIABLE" in result.stderr
    assert "hush" not in result.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [("proxy.url", "http://proxy:3128"), ("sasl.plain.password.file", "secrets/password")],
)
def test_a_proxy_without_a_user_and_the_path_of_a_secret_are_none(
    run_with: RunWith, name: str, value: str
) -> None:
    assert run_with("--kafka", f"{name}={value}").kafka == {name: value}


def test_a_secret_in_a_broken_environment_variable_is_not_shown() -> None:
    result = failing_run(environment={"COORDINATOR_STATE_KAFKA": "password=hush"})

    assert "COORDINATOR_STATE_KAFKA is not a mapping of Kafka properties" in result.stderr
    assert "hush" not in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("tables = ", "cannot read the config file"),
        ("tabels = 'x'", "unknown option tabels"),
        ("kafka = 'x'", "[kafka] of the config file is not a mapping"),
        ("history = 'some'", "'some' is not one of 'off', 'sampled', 'all'"),
    ],
)
def test_a_config_file_that_is_wrong_is_told(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content)

    result = failing_run("--config", str(file))

    assert message in result.stderr
    assert result.stderr.splitlines()[-1].startswith("Error: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kafka", "client.id"], "--kafka: number 1 is not KEY=VALUE"),
        (["--log-partitions", "1,x"], "--log-partitions: '1,x' is not N[,N…]"),
        (["--trigger", "1 second", "--available-now"], "exclude each other"),
        (["--trigger", "often"], "--trigger: 'often' is not a duration such as 60s"),
        (["--config", "nowhere.toml"], "'nowhere.toml' does not exist"),
    ],
)
def test_a_wrong_option_is_told(arguments: list[str], message: str) -> None:
    assert message in failing_run(*arguments).stderr


@pytest.mark.parametrize("option", ["trigger", "history"])
def test_a_wrong_value_is_told_with_its_source(tmp_path: Path, option: str) -> None:
    """`trigger` is checked by the settings, `history` by click."""
    file = tmp_path / "run.toml"
    file.write_text(f"{option} = 'wrong'")
    variable = f"COORDINATOR_STATE_{option.upper()}"

    given = failing_run(f"--{option}", "wrong", environment={variable: "other"}).stderr
    assert given.startswith(f"Error: --{option}: 'wrong' is not ")
    in_environment = failing_run("--config", str(file), environment={variable: "other"}).stderr
    assert in_environment.startswith(f"Error: {variable}: 'other' is not ")
    in_file = failing_run("--config", str(file)).stderr
    assert in_file.startswith(f"Error: {option} in {file}: 'wrong' is not ")


def test_a_misspelled_environment_variable_is_warned_about(run_with: RunWith) -> None:
    environment = {"COORDINATOR_STATE_TRIGER": "5s", "COORDINATOR_STATE_CACHE": "cache"}
    result = failing_run("--trigger", "often", environment=environment)

    assert result.stderr.splitlines()[0] == (
        "Warning: no command has an option for the environment variable COORDINATOR_STATE_TRIGER; "
        "did you mean COORDINATOR_STATE_TRIGGER?"
    )
    assert "CACHE" not in result.stderr
    # The variable of another command is none.
    assert run_with(environment={"COORDINATOR_STATE_EVERY": "5s"}).trigger == "1 second"


def test_available_now_wins_over_an_interval_in_the_environment(run_with: RunWith) -> None:
    environment = {"COORDINATOR_STATE_TRIGGER": "1 hour"}

    assert run_with("--available-now", environment=environment).available_now


def test_every_option_of_every_command_has_its_environment_variable() -> None:
    for command in COMMANDS.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                name = parameter.opts[0].lstrip("-").replace("-", "_").upper()
                assert parameter.envvar == f"COORDINATOR_STATE_{name}", parameter.opts
