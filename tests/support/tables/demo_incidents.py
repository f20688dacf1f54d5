"""The groups of the demo in the middle of their incidents, without a broker."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from coordinator_state.insight.group_status import Cause
from streaming.tables.schemas import LOAD_PROGRESS
from tests.support.tables import explained_incidents as incidents
from tests.support.tables.explained_incidents import CASES, START, Case, Incident
from tests.support.tables.incident_tables import write_tables
from tests.support.tables.tables_folder import backdate

_LOG_PARTITIONS = 50
_LASTS = timedelta(minutes=34, seconds=5)


class DemoIncident(NamedTuple):
    """The incident of a group of the demo, and how long it runs."""

    group: str
    case: Case
    seconds: int

    @property
    def cause(self) -> Cause:
        return dict(CASES)[self.case]


INCIDENTS = (
    DemoIncident("search", incidents.rebalances_again_and_again, 34 * 60 + 1),
    DemoIncident("refunds", incidents.aborts_every_transaction, 33 * 60 + 1),
    DemoIncident("fraud-check", incidents.never_ends_a_transaction, 33 * 60 + 6),
    DemoIncident("returns", incidents.has_offsets_deleted, 34 * 60),
    DemoIncident("trial", incidents.is_deleted, 31 * 60),
    DemoIncident("reports", incidents.rewound_by_a_consumer, 33 * 60),
    DemoIncident("reports-stuck", incidents.stuck_without_a_commit, 33 * 60),
)
"""The incidents; `reports` has two kinds in turn, so it is here twice."""
HEALTHY = ("shipping", "payments")
END = START + _LASTS
"""The moment of all incidents."""


def demo_incidents() -> list[Incident]:
    """Each group of the demo at `END`; a group of the list begins so that it ends then."""
    healthy = [DemoIncident(group, incidents.caught_up, 30 * 60 + 1) for group in HEALTHY]
    return [_at_its_end(*incident) for incident in (*INCIDENTS, *healthy)]


def _at_its_end(group: str, case: Case, seconds: int) -> Incident:
    start = END - timedelta(seconds=seconds)
    incident = case(
        group=group, topic=f"{group}-topic", start=start, log_partitions=_LOG_PARTITIONS
    )
    assert abs(incident.now - END) <= timedelta(seconds=1), (group, incident.now - END)
    return incident


def create_demo_tables(folder: Path) -> str:
    """The tables of a cluster with every incident of the demo.

    They reach back to the begin of the incidents. Their state is always that at `END`; commits,
    events and samples have the times of the incidents.
    """
    clusters = [incident.cluster for incident in demo_incidents()]
    tables = write_tables(folder, clusters, _LOG_PARTITIONS)
    backdate(tables, LOAD_PROGRESS, START)
    return tables
