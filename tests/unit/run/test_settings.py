"""The settings of `run`: from options, environment and file, their folders, and wrong ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest

import streaming.run.query
from coordinator_state.insight.group_status import StatusRules
from streaming.errors import ConfigurationError
from streaming.run.cluster_settings import ClusterSettings
from streaming.run.settings import RunSettings
from streaming.tables.durations import parse_duration
from streaming.tables.status_rules import status_rules_of, status_rules_text
from tests.support.clients.command_line import COMMANDS, RUN, call

NEEDED: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "tables": "tables"}

RunWith = Callable[..., RunSettings]


@pytest.fixture
def run_with(monkeypatch: pytest.MonkeyPatch) -> RunWith:
    """Run the command with a query that only takes down its settings."""
    seen: list[RunSettings] = []
    monkeypatch.setattr(
        streaming.run.query, "run_query", lambda settings, **_rest: seen.append(settings)
    )

    def run_with(
        *arguments: str, command: list[str] = RUN, environment: dict[str, str] | None = None
    ) -> RunSettings:
        call(*command, *arguments, env=environment)
        return seen.pop()

    return run_with


def error_of(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """The output of a `run` whose settings are refused."""
    result = call(*RUN, *arguments, env=environment, exit_code=2)
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1].startswith("Error: ")
    return result.stderr


# --- options and settings ------------------------------------------------------------------------


def test_the_command_line_and_the_python_api_have_the_same_defaults(run_with: RunWith) -> None:
    assert run_with() == RunSettings(**NEEDED)


def test_every_setting_is_an_option_and_every_option_a_setting_or_of_the_terminal() -> None:
    options = {str(option.name) for option in COMMANDS["run"].params}

    assert options >= set(RunSettings.model_fields)
    of_the_terminal = {"silent", "config", "verbose", "log_format", "log_level"}
    assert options - set(RunSettings.model_fields) == of_the_terminal


def test_an_option_has_the_type_the_default_and_the_range_of_its_setting() -> None:
    options: dict[str | None, Any] = {o.name: o for o in COMMANDS["run"].params}

    history, port = options["history"], options["http_port"].type
    assert (history.type.choices, history.default) == (("off", "sampled", "all"), "sampled")
    assert (port.min, port.max) == (0, 65_535)
    assert options["lag_interval"].metavar == "INTERVAL"
    assert options["catalog"].metavar == "[CATALOG.]DATABASE"
    assert options["available_now"].is_flag


def test_every_option_of_every_command_has_its_environment_variable() -> None:
    for command in COMMANDS.values():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                name = parameter.opts[0].lstrip("-").replace("-", "_").upper()
                # The variable of that name has the limits of `run`.
                is_of_run = parameter.name == "status_rules_file"
                expected = None if is_of_run else f"COORDINATOR_STATE_{name}"
                assert parameter.envvar == expected, parameter.opts


@pytest.mark.parametrize(
    ("trigger", "servers"),
    [("5s", "localhost:9092"), ("5 seconds", "[::1]:9092, broker-2:9093"), ("5 s", "a:1")],
)
def test_both_notations_of_durations_and_every_address_are_accepted(
    trigger: str, servers: str
) -> None:
    settings = RunSettings.checked(tables="tables", bootstrap_servers=servers, trigger=trigger)
    assert parse_duration(settings.trigger) == timedelta(seconds=5)


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
    # One of two options that exclude each other is not refused for the other's environment.
    assert run_with("--available-now", environment=environment).available_now


def test_a_file_may_set_everything(run_with: RunWith, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        'bootstrap-servers = "localhost:9092"\ntables = "tables"\n'
        "max_records_per_trigger = 5\navailable_now = true\nlog_partitions = '0,7'\n"
        "timeout = 5  # of verify\n"
        '[kafka]\n"security.protocol" = "SSL"\nssl.check.hostname = false\n'
    )

    assert run_with("--config", str(file), command=["run"]) == RunSettings(
        **NEEDED,
        max_records_per_trigger=5,
        available_now=True,
        log_partitions=(0, 7),
        kafka={"security.protocol": "SSL", "ssl.check.hostname": "false"},
    )


# --- wrong settings ------------------------------------------------------------------------------


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
        (
            {"catalog": "monitoring", "tables": "spark_catalog.kafka"},
            "--catalog: --tables spark_catalog.kafka already names a schema",
        ),
        ({"max_records_per_trigger": 0}, "--max-records-per-trigger: Input should be greater"),
        ({"log_partitions": [-1]}, "--log-partitions: Input should be greater"),
        ({"colour": "red"}, "there is no option --colour"),
        *(
            ({"openlineage": url}, "--openlineage: it must begin with http:// or https:// and a")
            for url in ("marquez:5000", "file:///events.json", "http://[hush")
        ),
        (
            {"openlineage": "http://me:hush@marquez:5000"},
            "--openlineage: it must not contain a user or password: set OPENLINEAGE_API_KEY",
        ),
        ({"status_rules": {"stop": "1m"}}, "unknown limit stop; the limits are stale_after,"),
        ({"status_rules": {"stop_after": "1"}}, "'1' is not a duration"),
        ({"status_rules": {"rebalances": ""}}, "'' is not a whole number"),
        ({"kafka": {"sasl.plain.password": "hush"}}, " sasl.plain.password.env="),
        ({"kafka": {"proxy.url": "http://me:hush@proxy:1"}}, "proxy.url.file="),
    ],
)
def test_a_setting_that_is_wrong_is_named_in_one_line(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        RunSettings.checked(**NEEDED | options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("", ["--kafka", "client.id"], "--kafka: number 1 is not KEY=VALUE"),
        ("", ["--log-partitions", "1,x"], "--log-partitions: '1,x' is not N[,N…]"),
        ("", ["--kafka", "ssl.key.password=x"], "use ssl.key.password.file=PATH or ssl.key.passwo"),
        ("", ["--trigger", "1 second", "--available-now"], "exclude each other"),
        ("", ["--config", "nowhere.toml"], "'nowhere.toml' does not exist"),
        ("tables = ", [], "cannot read the config file"),
        (f"tables = {'[' * 3_000}", [], "cannot read the config file"),
        ("tabels = 'x'", [], "unknown option tabels"),
        ("", ["--status-rules", "stop_after"], "--status-rules: number 1 is not LIMIT=VALUE"),
        ("[status_rules]\nstop = '1m'", [], "unknown limit stop"),
        ("kafka = 'x'", [], "[kafka] of the config file is not a mapping"),
        ("history = 'some'", [], "'some' is not one of 'off', 'sampled', 'all'"),
    ],
)
def test_a_wrong_file_or_option_is_refused(
    tmp_path: Path, content: str, arguments: list[str], message: str
) -> None:
    file = tmp_path / "run.toml"
    file.write_text(content)
    assert message in error_of("--config", str(file), *arguments)


@pytest.mark.parametrize("option", ["trigger", "history"])
def test_a_wrong_value_is_refused_with_its_source(tmp_path: Path, option: str) -> None:
    """`trigger` is checked by the settings, `history` by click."""
    file = tmp_path / "run.toml"
    file.write_text(f"{option} = 'wrong'")
    variable = f"COORDINATOR_STATE_{option.upper()}"
    environment = {variable: "other"}

    for arguments, used, source in (
        ((f"--{option}", "wrong"), environment, f"--{option}: 'wrong'"),
        (("--config", str(file)), environment, f"{variable}: 'other'"),
        (("--config", str(file)), None, f"{option} in {file}: 'wrong'"),
    ):
        assert error_of(*arguments, environment=used).startswith(f"Error: {source} is not ")


def test_a_misspelled_environment_variable_is_warned_about(run_with: RunWith) -> None:
    environment = {"COORDINATOR_STATE_TRIGER": "5s", "COORDINATOR_STATE_CACHE": "cache"}
    text = error_of("--trigger", "often", environment=environment)

    assert text.splitlines()[0] == (
        "Warning: no command has an option for the environment variable COORDINATOR_STATE_TRIGER; "
        "did you mean COORDINATOR_STATE_TRIGGER?"
    )
    assert "CACHE" not in text
    # The variable of another command is none.
    assert run_with(environment={"COORDINATOR_STATE_EVERY": "5s"}).trigger == "1 second"


# --- Kafka properties ----------------------------------------------------------------------------


def test_kafka_properties_are_merged_key_by_key(
    run_with: RunWith, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "COORDINATOR_STATE_KAFKA_SASL_PLAIN_PASSWORD"
    monkeypatch.setenv(variable, "of before")
    file = tmp_path / "run.toml"
    file.write_text('[kafka]\n"sasl.plain.password" = "hush"\n"client.id" = "a"\nx = "file"\n')

    settings = run_with(
        *("--config", str(file), "--kafka", "client.id=c"),
        environment={"COORDINATOR_STATE_KAFKA": '{"client.id": "b", "x": "environment"}'},
    )

    assert settings.kafka == {
        "sasl.plain.password.env": variable,
        "client.id": "c",
        "x": "environment",
    }
    assert os.environ[variable] == "hush"


def test_limits_of_statuses_are_merged_one_by_one(run_with: RunWith, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[status_rules]\nstop_after = "1m"\nrebalances = 9\nslow_after = "1m"\n')

    settings = run_with(
        *("--config", str(file), "--status-rules", "stop_after=3m"),
        environment={"COORDINATOR_STATE_STATUS_RULES": '{"stop_after": "2m", "slow_after": "2m"}'},
    )

    limits = StatusRules(stop_after_ms=180_000, rebalances=9, slow_after_ms=120_000)
    assert settings.status_rules == limits
    assert status_rules_of(status_rules_text(limits)) == limits
    assert status_rules_of('{"of_a_later_release": 1}') == StatusRules()


def test_brokers_say_how_long_a_transaction_may_be_open_unless_the_user_does() -> None:
    cluster = ClusterSettings(
        offsets_retention_ms=1, delete_retention_ms=1, transaction_max_timeout_ms=3_600_000
    )
    limits = StatusRules(rebalances=9, hanging_after_ms=3_600_000)
    assert cluster.limits(StatusRules(rebalances=9)) == limits
    own = StatusRules(hanging_after_ms=60_000)
    assert cluster.limits(own) == own


@pytest.mark.parametrize(
    ("name", "value"),
    [("proxy.url", "http://proxy:3128"), ("sasl.plain.password.file", "secrets/password")],
)
def test_a_proxy_without_a_user_and_the_path_of_a_secret_are_none(
    run_with: RunWith, name: str, value: str
) -> None:
    assert run_with("--kafka", f"{name}={value}").kafka == {name: value}


def test_a_variable_that_is_no_mapping_is_refused() -> None:
    text = error_of(environment={"COORDINATOR_STATE_KAFKA": "password=hush"})
    assert "COORDINATOR_STATE_KAFKA is not a mapping of names to values" in text


# --- folders -------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("given", "tables", "checkpoint"),
    [
        ({"tables": "a/b/"}, "{here}/a/b", "{here}/a/checkpoints/b"),
        ({"tables": "tables"}, "{here}/tables", "{here}/checkpoints/tables"),
        ({"tables": "a", "checkpoint": "c"}, "{here}/a", "{here}/c"),
        ({"tables": "s3://bucket/t"}, "s3://bucket/t", "{here}/checkpoints/t"),
        (
            {"tables": "s3://bucket/t", "checkpoint": "s3://bucket/c"},
            *("s3://bucket/t", "s3://bucket/c"),
        ),
        # The location of a schema is known later.
        ({"tables": "spark_catalog.kafka"}, "spark_catalog.kafka", ""),
    ],
)
def test_the_checkpoint_is_beside_the_tables_folder_and_both_are_absolute(
    here: Path, given: dict[str, str], tables: str, checkpoint: str
) -> None:
    settings = RunSettings(**NEEDED | given)
    assert settings.tables == tables.format(here=here)
    assert settings.checkpoint == checkpoint.format(here=here)


@pytest.mark.parametrize(("given", "checkpoint"), [("", "/wh/checkpoints/kafka.db"), ("/c", "/c")])
def test_tables_in_a_catalog_get_their_folder_later(given: str, checkpoint: str) -> None:
    named = NEEDED | {"tables": "spark_catalog.kafka", "trigger": "30s", "checkpoint": given}
    located = {"tables": "/wh/kafka.db", "checkpoint": checkpoint, "catalog": "spark_catalog.kafka"}
    assert RunSettings(**named).in_folder("file:/wh/kafka.db") == RunSettings(**named | located)
