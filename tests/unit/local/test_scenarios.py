"""Scenarios: groups as they are in the wild, healthy and broken, over two hours each.

The expectations are what an engineer on call would call right. Each file of `tests/scenarios` is a
test.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from jsonschema_rs import validator_for
from ruamel.yaml import YAML

from coordinator_state.insight.group_status import Cause, Status
from streaming.alerts.rules import default_rules, load_rules
from streaming.errors import ConfigurationError
from streaming.lag.evaluation import Evaluation
from streaming.lag.recent_commits import KEY
from streaming.local.scenario.judging import Judged, judge
from streaming.local.scenario.play import Cluster, Look, play, scenario_tables
from streaming.local.scenario.scenario import BEGIN, Scenario, load_scenario
from streaming.tables.reader import TableReader
from tests.support.clients.command_line import call

SCENARIOS: Final = Path(__file__).parents[2] / "scenarios"
FILES: Final = sorted(SCENARIOS.glob("*.yaml"))

KNOWN_WRONG: Final[Mapping[str, str]] = {
    "first-commit-after-10m": "a new group is STOP after five minutes without its first commit",
    "delay-queue-rate-doubles": "a group with a constant delay is WARN while the rate has changed",
    "slower-commits-after-deployment": "a new version that commits rarely is STOP before its first "
    "commit",
}
"""The scenarios whose expectations do not hold yet, with what happens."""


@pytest.fixture(scope="module")
def judged() -> Mapping[str, Judged]:
    def on_look(look: Look, _cluster: Cluster) -> None:
        # What is kept from one evaluation to the next changes no status.
        if look.t % 1_200 == 0:
            statuses = Evaluation.of(look.reader, at=look.at).lag_columns([*KEY, "status"])
            assert look.evaluation.lag_columns([*KEY, "status"]) == statuses

    scenarios = [load_scenario(file) for file in FILES]
    every = judge(scenarios, default_rules(), on_look=on_look)
    return {each.scenario.name: each for each in every}


@pytest.mark.long
@pytest.mark.timeout(1_800)  # The first one plays them all.
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_is_judged_right(file: Path, judged: Mapping[str, Judged]) -> None:
    lines = [failure.line for failure in judged[file.stem].failures]
    if file.stem in KNOWN_WRONG:
        assert lines, "it is right now: take it off the list"
    else:
        assert lines == []


def test_there_are_forty_of_each_kind_over_two_hours() -> None:
    scenarios = [load_scenario(file) for file in FILES]
    broken = [each for each in scenarios if any(e.is_incident for e in each.expect)]
    assert len(broken) >= 40
    assert len(scenarios) - len(broken) >= 40
    assert min(each.lasts_s for each in scenarios) >= 7_200
    assert all(each.about for each in scenarios)


def test_the_json_schema_takes_every_scenario() -> None:
    schema = json.loads((SCENARIOS.parents[1] / "docs" / "scenario.schema.json").read_text())
    validator = validator_for(schema)
    for file in FILES:
        document = YAML(typ="safe").load(file.read_text())
        assert [str(error) for error in validator.iter_errors(document)] == [], file.name
        wrong = {**document, "groups": {"g": {"reads": "t", "events": [{"do": "dance"}]}}}
        assert not validator.is_valid(wrong)


MINUTES: Final = """
lasts: 10m
topics:
  orders: {partitions: 2, rate: 100}
  audit: {rate: 1/5m}
  ledger: {rate: 20, transactions: 30s}
groups:
  crashes: {reads: orders, events: [{do: crash, from: 6m}]}
  deployed: {reads: orders, kind: cooperative, members: 4, events: [{do: deploy, at: 3m}]}
  consumers: {reads: orders, kind: consumer, members: 2}
  sticks: {reads: orders, members: 2, events: [{do: pause, partition: 1, from: 6m}]}
  quiet: {reads: audit, commits_unchanged: false}
  exactly-once: {reads: ledger, commits: 30s, transactions: true, isolation: read_committed}
  sharers: {reads: orders, kind: share, members: 2}
  simple: {reads: orders, kind: simple}
expect:
  - {group: crashes, to: 6m, status: OK, notices: 0}
  - {group: crashes, from: 6m, within: 60s, status: STOP, cause: [no_members, no_commits],
    alerts: stopped}
  - {group: deployed, status: OK, notices: 0}
  - {group: consumers, status: OK, notices: 0}
  - {group: sticks, to: 6m, status: OK, notices: 0}
  - {group: sticks, from: 6m, within: 60s, status: STALL, reason: "orders:1", notices: 1}
  - {group: quiet, status: OK, notices: 0}
  - {group: exactly-once, status: OK, notices: 0}
  - {group: sharers, status: OK, notices: 0}
  - {group: simple, status: OK, notices: 0}
"""


def loaded(folder: Path, text: str) -> Scenario:
    file = folder / "minutes.yaml"
    file.write_text(text)
    return load_scenario(file, [rule.name for rule in default_rules().rules])


def test_minutes_of_groups_of_every_kind(tmp_path: Path) -> None:
    (each,) = judge([loaded(tmp_path, MINUTES)], default_rules())
    assert [failure.line for failure in each.failures] == []
    assert {look.status for look in each.looks["crashes"]} == {Status.OK, Status.STOP}


FALSE: Final = """
lasts: 6m
topics:
  orders: {rate: 100}
groups:
  app: {reads: orders, events: [{do: crash, from: 2m}]}
expect:
  - {status: OK}
  - {from: 5m, cause: deploy}
  - {from: 5m, reason: nobody}
  - {from: 5m, alerts: [slow]}
  - {from: 5m, alerts: []}
  - {notices: 0}
"""


def test_each_expectation_that_does_not_hold_has_a_line(tmp_path: Path) -> None:
    (each,) = judge([loaded(tmp_path, FALSE)], default_rules())
    lines = [failure.line for failure in each.failures]
    begins = [
        "3:00 (00:03:00Z): expected status OK, got STOP: ",
        "5:00 (00:05:00Z): expected cause deploy, got no_members",
        "5:00 (00:05:00Z): expected a reason with 'nobody', got ",
        "5:00 (00:05:00Z): expected alerts slow, got stopped: ",
        "5:00 (00:05:00Z): expected alerts none, got stopped: ",
        "3:00 (00:03:00Z): expected 0 notices, got 1, the first at",
    ]
    for line, begin in zip(lines, begins, strict=True):
        assert line.startswith(f"minutes: group app after 0:0{begin}")
    assert lines[0].endswith(" (7 of 12 looks)")
    assert each.causes[1, 300] is Cause.NO_MEMBERS


READS: Final = "topics: {t: {}}\ngroups: {g: {reads: t}}\n"
TOPIC: Final = "topics: {t: {}}\ngroups:\n  g:"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics:\n  t: {rate: 1\ngroups:", "2: add the missing comma or closing } before line 3"),
        ("topics: {t: {}}\nabout: 'one", "2: add the closing quote of the text"),
        (
            "topics: {t: {rate: fast}}",
            "1: topics.t.rate: 'fast' is not a rate such as 100",
        ),
        ("topics: {t: {partitions: many}}", "1: topics.t.partitions: must be a whole number"),
        # Groups and their events.
        (f"{TOPIC} {{reads: t, commits: 7s}}", "3: groups.g.commits.0: '7s' is not a multiple of "),
        (
            f"{TOPIC}\n    reads: t\n    events: [{{do: dance, at: 1m}}]",
            "5: groups.g.events.0: 'do' must be one of 'stop', 'crash', ",
        ),
        (
            f"{TOPIC} {{reads: t, events: [{{do: crash, from: 2m, to: 1m}}]}}",
            "3: groups.g.events.0.crash: to must be after from",
        ),
        (f"{TOPIC} {{reads: u}}", "3: groups.g.reads: the file has no u; it has t"),
        (
            f"{TOPIC} {{reads: t, events: [{{do: subscribe, at: 1m, topics: u}}]}}",
            "3: groups.g.events.0.topics: the file has no u; it has t",
        ),
        (
            "topics:\n  t: {partitions: 2, events: [{do: add_partitions, at: 1m, partitions: 3}]}\n"
            "groups:\n  g:\n    reads: t\n    events:\n"
            "      - {do: pause, partition: 2, from: 2m}\n"
            "      - {do: reset, at: 1m, offset: 0, topic: t, partition: 3}",
            "8: groups.g.events.1.partition: t has no such partition, only 0 to 2",
        ),
        # Expectations.
        (
            "topics: {t: {}}\ngroups: {g: {reads: t}, h: {reads: t}}\nexpect: [{status: OK}]",
            "3: expect.0: name the group, there are several",
        ),
        (
            f"{READS}expect: [{{from: 1m}}]",
            "3: expect.0: expected one of status, cause, reason",
        ),
        *(
            (f"{READS}expect: [{{{during}}}]", "3: expect.0: nothing is compared, because there is")
            for during in (
                "from: 125s, to: 140s, notices: 1",
                "from: 2m, to: 5m, within: 1h, status: STOP",
            )
        ),
        (
            f"{READS}expect:\n  - {{alerts: stopped}}\n  - {{alerts: [stopt]}}",
            "5: expect.1.alerts: the rules file has no stopt; it has stopped, ",
        ),
        # Times.
        (
            "lasts: 1m\ntopics:\n  t: {events: [{do: write, at: 65s, records: 1}]}\n"
            "groups: {g: {reads: t}}",
            "3: topics.t.events.0.at: is after the end of the scenario, which lasts 60s",
        ),
        (
            f"{TOPIC}\n    reads: t\n    events:\n"
            "      - {do: deploy, at: 2h}\n      - {do: stop, from: 3h}",
            "7: groups.g.events.1.from: is after the end of the scenario",
        ),
        (
            f"{TOPIC} {{reads: t, starts: 3h}}",
            "3: groups.g.starts: is after the end",
        ),
        (
            f"{READS}run: {{down: [{{from: 3h}}]}}",
            "3: run.down.0.from: is after the end",
        ),
        (
            f"{READS}expect: [{{from: 3h, status: OK}}]",
            "3: expect.0.from: from is after the end",
        ),
    ],
)
def test_a_mistake_has_its_line_and_its_key(tmp_path: Path, text: str, message: str) -> None:
    """`test_alert_rules` has those that files of rules have, too."""
    with pytest.raises(ConfigurationError) as error:
        loaded(tmp_path, text if "groups" in text else f"{text}\ngroups: {{g: {{reads: t}}}}")
    line = str(error.value).removeprefix(f"{tmp_path}/")
    assert line.startswith(f"minutes.yaml:{message}")
    assert "\n" not in line


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (
            "{do: reset, at: 1m, offset: 5}",
            "group app has members, so its offsets cannot be reset at 60s: stop it before",
        ),
        ("{do: delete, at: 1m}", "group app cannot be deleted at 60s: NON_EMPTY_GROUP"),
    ],
)
def test_an_administrator_may_only_do_what_brokers_do(
    tmp_path: Path, event: str, message: str
) -> None:
    text = f"lasts: 2m\ntopics: {{t: {{}}}}\ngroups: {{app: {{reads: t, events: [{event}]}}}}"
    with pytest.raises(ConfigurationError) as error:
        judge([loaded(tmp_path, text)], default_rules())
    assert str(error.value) == message


@pytest.mark.long
def test_delta_tables_have_the_statuses_of_the_tables_in_memory(tmp_path: Path) -> None:
    scenario = loaded(tmp_path, MINUTES)
    tables = str(tmp_path / "tables")
    scenario_tables(scenario, tables, begin=BEGIN)
    columns = ["group_id", "status", "reason", "lag", "max_time_lag_ms"]
    moments = 0
    for look in play(Cluster([scenario], BEGIN)):
        if look.t not in {210, 390, 420, 480, 600}:
            continue
        reader = TableReader(tables, as_of=look.at)
        stored = Evaluation.of(reader, at=look.at).statuses.select(columns)
        assert stored.to_pylist() == look.evaluation.statuses.select(columns).to_pylist()
        kept = reader.read("group_lag", ["group_id"])
        assert set(kept["group_id"].to_pylist()) == {*scenario.groups}
        moments += 1
    assert moments == 5
    # `run` keeps the statuses of the last look, and their changes.
    changes = TableReader(tables).read("status_changes", ["group_id", "status_after", "topic"])
    assert {"group_id": "crashes", "status_after": "STOP", "topic": None} in changes.to_pylist()


def test_simulate_and_alert_test_play_a_file(tmp_path: Path) -> None:
    file, tables = tmp_path / "app.yaml", str(tmp_path / "tables")
    file.write_text(FALSE.replace("6m", "4m").replace("from: 5m", "from: 3m"))
    done = call("alert", "test", "--scenario", str(file), "--output", "json", exit_code=1)
    answer = json.loads(done.stdout)
    assert (answer["scenarios"], answer["right"], len(answer["failures"])) == (1, 0, 6)
    assert {row["group"] for row in answer["failures"]} == {"app"}
    text = call("alert", "test", "--scenario", str(file), exit_code=1).stdout.splitlines()
    assert len(text) == 7
    assert text[-1] == "0 of 1 scenarios are right"
    file.write_text(FALSE.partition("expect")[0].replace("6m", "4m"))
    assert call("alert", "test", "--scenario", str(file)).stdout == "1 of 1 scenarios are right\n"
    made = call("simulate", "--scenario", str(file), "--tables", tables, "--output", "json")
    assert json.loads(made.stdout)["groups"] == 1
    statuses = call("show", "status", "--tables", tables, "--as-of", "0s", "--output", "json")
    assert json.loads(statuses.stdout)["status"] == "STOP"
    # No group had the status, so none is evaluated.
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{name: gone, status: TOPIC_GONE}]")
    options = ("--tables", tables, "--rules-file", str(rules), "--since", "2m")
    assert "gone" not in call("alert", "test", *options).stdout


def test_a_rule_in_sql_needs_tables(tmp_path: Path) -> None:
    rules = tmp_path / "alerts.yaml"
    rules.write_text("rules: [{name: many, sql: SELECT 1 AS value}]")
    with pytest.raises(ConfigurationError, match="rule many: a scenario has no tables for SQL"):
        judge([loaded(tmp_path, FALSE)], load_rules(rules))
