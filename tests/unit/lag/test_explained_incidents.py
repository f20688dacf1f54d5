"""Every incident is explained, without a hint which one it is: also in text, JSON and docs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from coordinator_state.insight.explanation import MOST_EVIDENCE, Explanation, explain
from coordinator_state.insight.group_status import Cause
from coordinator_state.insight.lag_onset import Onset
from streaming.lag import freshness
from streaming.lag.gathered_facts import group_facts
from streaming.tables.reader import TableReader
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.diagnosis import explained, explanation_text
from tests.support.clients.command_line import call, json_lines
from tests.support.tables import explained_incidents as incidents
from tests.support.tables.explained_incidents import CASES, GROUP, Case, Incident
from tests.support.tables.incident_tables import STEP_S, Cluster, moment
from tests.support.tables.tables_folder import create_tables


def explained_at_end(incident: Incident, folder: Path) -> Explanation:
    """The explanation of the group at the end of an incident."""
    explanation = explained(TableReader(incident.tables(folder)), GROUP, at=incident.now)
    assert explanation is not None
    return explanation


ExplainedCase = Callable[[Case], tuple[Explanation, CoordinatorTables]]


@pytest.fixture(scope="module")
def explained_case(tmp_path_factory: pytest.TempPathFactory) -> ExplainedCase:
    """The explanation of an incident and its tables, built once."""

    @cache
    def build(case: Case) -> tuple[Explanation, CoordinatorTables]:
        folder = tmp_path_factory.mktemp(case.__name__) / "tables"
        return explained_at_end(case(), folder), CoordinatorTables(folder)

    return build


@pytest.mark.parametrize(("case", "cause"), CASES, ids=[case.__name__ for case, _ in CASES])
def test_the_cause_of_an_incident_is_the_first_evidence(
    explained_case: ExplainedCase, case: Case, cause: Cause
) -> None:
    explanation, tables = explained_case(case)

    assert explanation.evidence[0].cause is cause, explanation_text(explanation)
    assert 1 <= len(explanation.evidence) <= MOST_EVIDENCE
    known_ids = record_ids(tables)
    for evidence in explanation.evidence:
        assert evidence.record_ids or evidence.sql or evidence.cause is Cause.CAUGHT_UP
        assert set(evidence.record_ids) <= known_ids
        assert evidence.sql is None or len(tables.sql(evidence.sql)), evidence.sql


@pytest.mark.parametrize("case", [case for case, _ in CASES])
def test_the_cause_of_the_status_is_among_the_evidence(
    explained_case: ExplainedCase, case: Case
) -> None:
    explanation, tables = explained_case(case)
    facts = group_facts(tables.reader, GROUP, at=explanation.at)
    assert facts is not None
    causes = [evidence.cause for evidence in explanation.evidence]
    assert facts.cause is None or facts.cause in causes, explanation_text(explanation)


def record_ids(tables: CoordinatorTables) -> set[tuple[int, int]]:
    """The log partition and record offset of every record that the tables know."""
    names = ["log_partition", "record_offset"]
    views = (tables.history(), tables.pending_offsets(), tables.events(), tables.records())
    return {(row[names[0]], row[names[1]]) for view in views for row in view.arrow.to_pylist()}


def test_a_pending_status_names_the_client_after_its_member_has_left(
    explained_case: ExplainedCase,
) -> None:
    explanation, _ = explained_case(incidents.a_transaction_outlives_its_member)
    assert explanation.status == "PENDING"
    assert "producer 7 (client app-" in explanation.reason


def test_a_group_that_has_just_stopped_is_not_said_to_keep_up(tmp_path: Path) -> None:
    incident = incidents.simple()
    stopped_at = incident.now
    for seconds in (20, 20, 80):
        incident.run(seconds=seconds)
        explanation = explained_at_end(incident, tmp_path / f"{incident.now:%H-%M-%S}")
        causes = [evidence.cause for evidence in explanation.evidence]
        assert causes[0] is Cause.NO_COMMITS, explanation_text(explanation)
        assert Cause.CAUGHT_UP not in causes
        assert explanation.evidence[0].text == (
            f"no commit since {stopped_at:%H:%M:%S} UTC, usually within 5 s"
        )
        assert explanation.behind_since == Onset(stopped_at, is_earlier=False)


def test_a_recovered_rewind_is_not_the_cause_of_a_later_stop(tmp_path: Path) -> None:
    incident = incidents.rewound_by_a_consumer()
    incident.run(minutes=20, each=incident.assign_and_commit)
    stopped_at = incident.now
    incident.run(minutes=3)
    explanation = explained_at_end(incident, tmp_path / "tables")
    stop, rewind = explanation.evidence
    assert (stop.cause, rewind.cause) == (Cause.NO_COMMITS, Cause.OFFSET_REWIND)
    assert stop.text == f"no commit since {stopped_at:%H:%M:%S} UTC, usually within 5 s"
    assert rewind.text.startswith(f"{rewind.at:%H:%M:%S} UTC: 4 partitions of orders set back")


def test_one_partition_without_commits_is_named(explained_case: ExplainedCase) -> None:
    explanation, _ = explained_case(incidents.a_partition_has_no_owner)
    assert [
        evidence.text for evidence in explanation.evidence if evidence.cause is Cause.NO_COMMITS
    ] == [
        "2 members, no commit of orders:3 since 08:30:01 UTC, usually within 5 s; 3 other "
        "partitions have later commits"
    ]


def test_stale_tables_show_the_group_at_their_last_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = incidents.never_ends_a_transaction()
    reader = TableReader(incident.tables(tmp_path / "tables"))
    monkeypatch.setattr(freshness, "last_micro_batch", lambda *_: incident.now)
    late = group_facts(reader, GROUP, at=incident.now + timedelta(minutes=20))
    assert late is not None
    assert late.known_until == incident.now


# --- on the command line, as JSON and in the docs


def test_the_examples_of_the_page_are_printed(
    repository: Path, explained_case: ExplainedCase
) -> None:
    page = (repository / "docs" / "explain.md").read_text()
    examples = re.findall(r"<!-- (\w+) -->\n\n```text\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 3
    for name, text in examples:
        explanation, _ = explained_case(getattr(incidents, name))
        # The page wraps long lines.
        assert explanation_text(explanation) + "\n" == re.sub(r"(?: \\)?\n {6}(?=\S)", " ", text)


def test_every_cause_is_on_the_page(repository: Path) -> None:
    page = (repository / "docs" / "explain.md").read_text()
    causes = page.partition("\n## Causes\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `([a-z_]+)` \|", causes, re.MULTILINE)
    assert listed == [cause.value for cause in Cause]


def test_text_and_json_have_the_same_evidence(explained_case: ExplainedCase) -> None:
    _, tables = explained_case(incidents.one_record_is_poison)
    arguments = ("--tables", tables.reader.tables)
    (explanation,) = json_lines(call("explain", GROUP, *arguments, "--output", "json"))
    text = call("explain", GROUP, *arguments).stdout
    assert explanation["group_id"] == GROUP
    assert explanation["evidence"]
    for number, evidence in enumerate(explanation["evidence"], 1):
        assert f"{number}. {evidence['cause']}: {evidence['text']}\n" in text
    refused = call("explain", "order-app", *arguments, exit_code=1)
    assert refused.stdout == ""
    assert f"did you mean {GROUP}?" in refused.stderr


def test_a_pace_that_the_status_does_not_know_is_not_in_the_explanation(tmp_path: Path) -> None:
    """The commits of a group that had nothing to read are no pace."""
    cluster = Cluster()
    cluster.members("g")
    for t in range(0, 601, STEP_S):
        if t % 35 == 0 and t < 200:
            cluster.commit("g", 0)
        cluster.produce("g", 50 if t >= 200 else 0)
        cluster.step(10)
    reader = cluster.snapshots(create_tables(tmp_path)).reader(moment(600))
    assert reader is not None
    facts = group_facts(reader, "g", at=moment(600))
    assert facts is not None
    explanation = explain(facts)
    assert explanation.status == "UNKNOWN"
    assert explanation.reason.startswith("no commit for 7.1 min; the usual time")
    texts = [evidence.text for evidence in explanation.evidence]
    assert "1 member, no commit since 12:02:55 UTC" in texts
