"""The dbt package in deploy/dbt: equal to the code, and run by dbt on real tables.

The long tests install dbt into a virtual environment of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa
import pytest
from ruamel.yaml import YAML

from coordinator_state import CoordinatorTables
from coordinator_state.insight.group_events import EventName
from coordinator_state.insight.group_status import Status
from coordinator_state.insight.transaction_events import TransactionEventName
from coordinator_state.replay.groups import CLASSIC, CONSUMER, SHARE, STREAMS
from coordinator_state.replay.offsets import Outcome, Semantics
from streaming.alerts.alert import AlertState
from streaming.lag.evaluation import Evaluation
from streaming.run.evaluation import StatusEvaluation
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import (
    ALERTS,
    ALL_TABLES,
    LOST,
    STATE_CURRENT,
    STATE_LOADING,
    STATE_WAITING,
)
from streaming.views.definitions import SCHEMAS, SELECTS, VIEWS
from streaming.views.questions import QUESTIONS
from tests.support.deploy.packages import deploy_packages
from tests.support.tables.asked_tables import create_asked_tables

PACKAGE: Final = Path(__file__).parents[3] / "deploy" / "dbt"


@dataclass(frozen=True, slots=True)
class Dbt:
    """dbt with a folder for its output, and a project, which is the package by default."""

    folder: Path
    project: Path = PACKAGE

    @property
    def database(self) -> Path:
        """The file of DuckDB that models are written to."""
        return self.folder / "models.duckdb"

    def run(self, *command: str, tables: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of dbt on a tables folder."""
        program: list[str | Path] = [deploy_packages() / "dbt", "--no-use-colors", *command]
        return subprocess.run(
            [
                *program,
                *("--project-dir", self.project, "--profiles-dir", PACKAGE),
                *("--vars", json.dumps(variables)),
            ],
            env={
                **os.environ,
                "COORDINATOR_STATE_TABLES": tables,
                "DBT_DUCKDB_PATH": str(self.database),
                "DBT_TARGET_PATH": str(self.folder / "target"),
                "DBT_LOG_PATH": str(self.folder / "logs"),
                # It would look for newer releases, and report its use.
                "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
                "DBT_VERSION_CHECK": "false",
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    def results(self) -> dict[str, str]:
        """The status of each node of the last run, by the node's name."""
        run_results = json.loads((self.folder / "target" / "run_results.json").read_text())
        return {result["unique_id"]: result["status"] for result in run_results["results"]}


TABLES = {table.name: table for table in (*ALL_TABLES, ALERTS)}
LOAD_STATES = (STATE_LOADING, STATE_CURRENT, STATE_WAITING)
STATUSES = tuple(status.value for status in Status)
ACCEPTED = {
    ("load_progress", "state"): LOAD_STATES,
    ("topic_progress", "state"): LOAD_STATES,
    ("load_progress", "semantics"): tuple(rules.value for rules in Semantics),
    ("groups", "group_type"): (CLASSIC, CONSUMER, SHARE, STREAMS),
    ("offset_commits", "outcome"): (*(outcome.value for outcome in Outcome), LOST),
    ("group_events", "event"): tuple(event.value for event in EventName),
    ("transaction_events", "event"): tuple(event.value for event in TransactionEventName),
    ("log_offsets", "state"): ("present", "gone", "unauthorised", "unavailable"),
    ("alerts", "state"): tuple(state.value for state in AlertState),
    ("group_status", "status"): STATUSES,
    ("group_lag", "status"): STATUSES,
}
RELATION = re.compile(r"\{\{ (?:source\('coordinator_state', |ref\()'(\w+)'\) \}\}")


def long(test: Any) -> Any:
    """Marks of a test with dbt: the first one installs it."""
    return pytest.mark.long(pytest.mark.timeout(900)(test))


def load(name: str) -> Any:
    return YAML(typ="safe", pure=True).load(PACKAGE / "models" / name)


@pytest.fixture(scope="module")
def sources() -> dict[str, dict[str, Any]]:
    """The tables of the only source by their names."""
    (source,) = load("sources.yml")["sources"]
    assert source["name"] == "coordinator_state"
    return {table["name"]: table for table in source["tables"]}


def test_sources_have_the_columns_of_the_tables(sources: dict[str, dict[str, Any]]) -> None:
    """And their places, keys, required columns and accepted values."""
    assert sources.keys() == TABLES.keys()
    accepted = {}
    for name, table in TABLES.items():
        source = sources[name]
        assert source["description"]
        assert [column["name"] for column in source["columns"]] == SCHEMAS[name].names
        assert all(column["description"] for column in source["columns"])
        assert source["config"]["meta"]["delta_table_path"].endswith(f"}}}}/{name}")
        tests = {test: given for tests in source["data_tests"] for test, given in tests.items()}
        assert tests["unique_key"]["arguments"]["columns"] == list(table.key)
        required = [column.name for column in table.schema if not column.nullable]
        assert tests["no_nulls"]["arguments"]["columns"] == required
        for column in source["columns"]:
            for test in column.get("data_tests", ()):
                values = test["accepted_values"]["arguments"]["values"]
                accepted[name, column["name"]] = tuple(values)
    assert accepted == ACCEPTED


def test_models_are_the_documented_questions() -> None:
    described = models()
    assert list(described) == [question.text for question in QUESTIONS]
    files = {file.stem: file.read_text() for file in (PACKAGE / "models/questions").glob("*.sql")}
    assert files.keys() == set(described.values())
    for question in QUESTIONS:
        model = files[described[question.text]]
        for name in RELATION.findall(model):
            assert (f"ref('{name}')" in model) is (name not in TABLES)
        sql = RELATION.sub(r"\1", model).replace("{{ moment() }}", "moment()")
        assert sql == f"{question.sql}\n"


def test_the_views_are_models() -> None:
    files = {file.stem for file in (PACKAGE / "models/views").glob("*.sql")}
    described = {model["name"]: model["columns"] for model in load("views/views.yml")["models"]}
    assert files == described.keys() == SELECTS.keys()
    for name, columns in described.items():
        assert [column["name"] for column in columns] == VIEWS[name].names


def models() -> dict[str, str]:
    """The name of the model for each question."""
    described = load("questions/questions.yml")["models"]
    return {model["description"]: model["name"] for model in described}


class Asked(NamedTuple):
    """Tables, and the moment as of which they are asked."""

    tables: str
    as_of: str


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    folder = tmp_path_factory.mktemp("asked") / "tables"
    tables = create_asked_tables(folder, datetime.now(timezone.utc) - timedelta(minutes=1))
    as_of = datetime.now(timezone.utc).isoformat()
    evaluation = Evaluation.of(TableReader(tables, as_of=as_of))
    StatusEvaluation(open_for_writing(tables, "test")).keep(evaluation)
    return Asked(tables, as_of)


@pytest.fixture(scope="module")
def built(asked: Asked, tmp_path_factory: pytest.TempPathFactory) -> Dbt:
    """After `dbt build`, which makes every model and runs every test."""
    dbt = Dbt(tmp_path_factory.mktemp("dbt"))
    done = dbt.run("build", tables=asked.tables, coordinator_state_moment=asked.as_of)
    assert done.returncode == 0, done.stdout
    return dbt


@long
def test_every_model_answers_as_the_program_does(asked: Asked, built: Dbt) -> None:
    program = CoordinatorTables(asked.tables, as_of=asked.as_of)
    named = models()
    selects = {named[question.text]: question.sql for question in QUESTIONS}
    with duckdb.connect(str(built.database), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for model, select in (selects | {view: f"FROM {view}" for view in SELECTS}).items():
            answer = connection.sql(f"FROM {model}").to_arrow_table()
            expected = program.sql(select).arrow
            assert answer.column_names == expected.column_names
            assert rows_of(answer) == rows_of(expected), model
            assert answer.num_rows or model in SELECTS, model


def rows_of(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


@long
def test_every_test_runs_and_passes(built: Dbt) -> None:
    statuses = built.results()
    kinds = dict.fromkeys(("model", "test"), 0)
    for name, status in statuses.items():
        kinds[name.partition(".")[0]] += 1
        assert status in ("success", "pass"), name
    # The table `alerts` has two tests and a column with accepted values; it is not there.
    tests = 2 * len(ALL_TABLES) + len(ACCEPTED) - 1 + 1
    assert kinds == {"model": len(QUESTIONS) + len(SELECTS), "test": tests}


@pytest.mark.release
@long
@pytest.mark.parametrize(("age", "status"), [(timedelta(0), "pass"), (timedelta(hours=1), "error")])
def test_freshness_is_that_of_the_tables(age: timedelta, status: str, tmp_path: Path) -> None:
    fresh = create_asked_tables(tmp_path / "tables", datetime.now(timezone.utc) - age)
    done = Dbt(tmp_path).run("source", "freshness", tables=fresh)
    results = json.loads((tmp_path / "target" / "sources.json").read_text())["results"]
    statuses = {result["unique_id"].rpartition(".")[2]: result["status"] for result in results}
    # A quiet cluster commits nothing: only a warning.
    expected = {"load_progress": "warn" if status == "error" else status, "log_offsets": status}
    assert statuses == expected, done.stdout
    assert done.returncode == (status == "error")


@pytest.mark.release
@long
def test_rows_that_cannot_be_are_found(tmp_path: Path) -> None:
    wrong = create_asked_tables(
        tmp_path / "tables", datetime.now(timezone.utc), records_applied=29, state="resting"
    )
    done = Dbt(tmp_path).run("test", "--select", "source:coordinator_state.*", tables=wrong)
    assert done.returncode == 1
    failed = [name for name, status in Dbt(tmp_path).results().items() if status == "fail"]
    assert len(failed) == 2, done.stdout
    assert any("every_record_is_accounted_for" in name for name in failed)
    assert any("accepted_values_coordinator_state_load_progress_state" in name for name in failed)


@pytest.mark.release
@long
def test_another_project_can_use_the_package(asked: Asked, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "models").mkdir(parents=True)
    (project / "dbt_project.yml").write_text(
        "name: theirs\nversion: 1.0.0\nprofile: coordinator_state\n"
        "models: {+materialized: table, coordinator_state: {+enabled: false}}\n"
    )
    (project / "packages.yml").write_text(f"packages: [{{local: {PACKAGE}}}]\n")
    (project / "models" / "groups_per_state.sql").write_text(
        "SELECT state, count(*) AS groups\n"
        "FROM {{ source('coordinator_state', 'groups') }} GROUP BY ALL\n"
    )
    dbt = Dbt(tmp_path, project)
    for command in (("deps",), ("build", "--select", "groups_per_state")):
        done = dbt.run(*command, tables=asked.tables)
        assert done.returncode == 0, done.stdout
    with duckdb.connect(str(dbt.database), read_only=True) as connection:
        rows = connection.execute("FROM groups_per_state ORDER BY ALL").fetchall()
    assert rows == [("Empty", 1), ("Stable", 1)]


@long
def test_the_example_of_the_docs_is_what_dbt_prints(
    repository: Path, asked: Asked, built: Dbt
) -> None:
    page = (repository / "docs" / "dbt.md").read_text()
    passed = len(built.results())
    assert f"PASS={passed} WARN=0 ERROR=0 SKIP=0 NO-OP=0 TOTAL={passed}\n" in page
    models_run = len(QUESTIONS) + len(SELECTS)
    tests = passed - models_run
    assert f"Found {models_run} models, {tests} data tests, {len(TABLES)} sources" in page
    (shown,) = re.findall(r"dbt (--quiet show .*)\n((?:\|.*\n)+)", page)
    done = built.run(*shown[0].split(), tables=asked.tables)
    assert done.stdout.strip() == shown[1].strip()
