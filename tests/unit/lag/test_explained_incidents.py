"""Every incident is explained, without a hint which one it is."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from coordinator_state.insight.evidence import Cause
from coordinator_state.insight.explanation import MOST_EVIDENCE, Explanation, explain
from coordinator_state.insight.lag_onset import Onset
from streaming.lag import freshness
from streaming.lag.group_facts import group_facts
from streaming.tables.reader import TableReader
from streaming.views.coordinator_tables import CoordinatorTables
from streaming.views.explanation import explanation_text
from tests.support.tables import explained_incidents as incidents
from tests.support.tables.explained_incidents import CASES, GROUP, Case, Incident
from tests.support.tables.incident import START


def explained(incident: Incident, folder: Path) -> Explanation:
    """The explanation of the group at the end of an incident."""
    facts = group_facts(TableReader(incident.tables(folder)), GROUP, at=incident.now)
    assert facts is not None
    return explain(facts)


@pytest.mark.parametrize(("case", "cause"), CASES, ids=[case.__name__ for case, _ in CASES])
def test_the_cause_of_an_incident_is_the_first_evidence(
    tmp_path: Path, case: Case, cause: Cause
) -> None:
    found = explained(case(), tmp_path / "tables")

    assert found.evidence[0].cause is cause, explanation_text(found)
    assert 1 <= len(found.evidence) <= MOST_EVIDENCE
    tables = CoordinatorTables(tmp_path / "tables")
    for one in found.evidence:
        assert one.record_ids or one.sql or one.cause is Cause.CAUGHT_UP
        assert set(one.record_ids) <= record_ids(tables)
        assert one.sql is None or len(tables.sql(one.sql)), one.sql


def record_ids(tables: CoordinatorTables) -> set[tuple[int, int]]:
    """The log partition and record offset of every record that the tables know."""
    found = (tables.history(), tables.pending_offsets(), tables.events(), tables.records())
    return {
        (row["log_partition"], row["record_offset"])
        for rows in found
        for row in rows.arrow.to_pylist()
    }


def test_a_pending_status_names_the_client_after_its_member_has_left(tmp_path: Path) -> None:
    found = explained(incidents.a_transaction_outlives_its_member(), tmp_path / "tables")
    assert found.status == "PENDING"
    assert "producer 7 (client app-" in found.reason


def test_an_unknown_group_has_no_facts(tmp_path: Path) -> None:
    tables = TableReader(incidents.caught_up().tables(tmp_path / "tables"))
    assert group_facts(tables, "order-app") is None


@pytest.mark.parametrize("seconds", [20, 40, 120])
def test_a_group_that_has_just_stopped_is_not_said_to_keep_up(tmp_path: Path, seconds: int) -> None:
    incident = incidents.simple()
    stopped_at = incident.now
    incident.run(seconds=seconds)
    found = explained(incident, tmp_path / "tables")
    causes = [one.cause for one in found.evidence]
    assert causes[0] is Cause.NO_COMMITS, explanation_text(found)
    assert Cause.CAUGHT_UP not in causes
    assert found.evidence[0].text == f"no commit since {stopped_at:%H:%M:%S} UTC, usually every 5 s"
    assert found.behind_since == Onset(stopped_at, is_earlier=False)


def test_a_recovered_rewind_is_not_the_cause_of_a_later_stop(tmp_path: Path) -> None:
    incident = incidents.rewound_by_a_consumer()
    incident.run(minutes=20, each=incident.assign_and_commit)
    stopped_at = incident.now
    incident.run(minutes=3)
    found = explained(incident, tmp_path / "tables")
    assert [one.cause for one in found.evidence] == [Cause.NO_COMMITS, Cause.OFFSET_REWIND]
    assert found.evidence[0].text == f"no commit since {stopped_at:%H:%M:%S} UTC, usually every 5 s"
    rewind = found.evidence[1]
    assert rewind.text.startswith(f"{rewind.at:%H:%M:%S} UTC: 4 partitions of orders set back")


def test_one_partition_without_commits_is_named(tmp_path: Path) -> None:
    incident = incidents.a_partition_has_no_owner()
    stopped = next(
        one.text
        for one in explained(incident, tmp_path / "tables").evidence
        if one.cause is Cause.NO_COMMITS
    )
    assert stopped == (
        "2 members, no commit of orders:3 since 08:30:01 UTC, usually every 5 s; 3 other "
        "partitions have later commits"
    )


@pytest.mark.parametrize("case", [incidents.simple, incidents.members_read_slower])
def test_the_lag_grows_since_the_same_moment_whenever_one_asks(tmp_path: Path, case: Case) -> None:
    incident = case()
    found = []
    for minutes in (3, 2, 1.4, 7):
        incident.run(minutes=minutes)
        found.append(explained(incident, tmp_path / str(minutes)).behind_since)
    assert len(set(found)) == 1, found
    assert found[0] is not None
    assert timedelta(0) <= found[0].at - (START + timedelta(minutes=30)) <= timedelta(minutes=1)


def test_stale_tables_show_the_group_at_their_last_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    incident = incidents.never_ends_a_transaction()
    reader = TableReader(incident.tables(tmp_path / "tables"))
    monkeypatch.setattr(freshness, "last_micro_batch", lambda *_: incident.now)
    late = group_facts(reader, GROUP, at=incident.now + timedelta(minutes=20))
    assert late is not None
    assert late.known_until == incident.now
