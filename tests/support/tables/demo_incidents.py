"""The groups of the demo in the middle of their incidents, without a broker."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from coordinator_state.insight.evidence import Cause
from streaming.tables.schemas import LOAD_PROGRESS
from tests.support.tables import explained_incidents as incidents
from tests.support.tables.explained_incidents import Case, Incident
from tests.support.tables.incident import START, write_tables
from tests.support.tables.tables_folder import backdate

_LOG_PARTITIONS = 50
_LASTS = timedelta(minutes=34, seconds=5)


class DemoIncident(NamedTuple):
    """The incident of a group of the demo, how long it runs, and its cause."""

    group: str
    case: Case
    runs: timedelta
    cause: Cause


INCIDENTS = (
    DemoIncident(
        "search",
        incidents.rebalances_again_and_again,
        timedelta(minutes=34, seconds=1),
        Cause.REBALANCES,
    ),
    DemoIncident(
        "refunds",
        incidents.aborts_every_transaction,
        timedelta(minutes=33, seconds=1),
        Cause.ABORTED_TRANSACTIONS,
    ),
    DemoIncident(
        "fraud-check",
        incidents.never_ends_a_transaction,
        timedelta(minutes=33, seconds=6),
        Cause.OPEN_TRANSACTION,
    ),
    DemoIncident(
        "returns", incidents.has_offsets_deleted, timedelta(minutes=34), Cause.OFFSET_DELETED
    ),
    DemoIncident("trial", incidents.is_deleted, timedelta(minutes=31), Cause.GROUP_DELETED),
    DemoIncident(
        "reports", incidents.rewound_by_a_consumer, timedelta(minutes=33), Cause.OFFSET_REWIND
    ),
    DemoIncident(
        "reports-stuck", incidents.stuck_without_a_commit, timedelta(minutes=33), Cause.NO_COMMITS
    ),
)
"""The incidents; `reports` has two kinds in turn, so it is here twice."""
HEALTHY = ("shipping", "payments")
END = START + _LASTS
"""The moment of all incidents."""


def demo_incidents() -> list[Incident]:
    """Each group of the demo at `END`; a group of the list begins so that it ends then."""
    cases = [(one.group, one.case, one.runs) for one in INCIDENTS]
    cases += [(group, incidents.caught_up, timedelta(minutes=30, seconds=1)) for group in HEALTHY]
    return [_ending_at(END, group, case, runs) for group, case, runs in cases]


def _ending_at(end: datetime, group: str, case: Case, runs: timedelta) -> Incident:
    found = case(
        group=group, topic=f"{group}-topic", start=end - runs, log_partitions=_LOG_PARTITIONS
    )
    assert abs(found.now - end) <= timedelta(seconds=1), (group, found.now - end)
    return found


def create_demo_tables(folder: Path) -> str:
    """The tables of a cluster with every incident of the demo.

    They reach back to the begin of the incidents. Their state is always that at `END`; commits,
    events and samples have the times of the incidents.
    """
    tables = write_tables(folder, demo_incidents())
    backdate(tables, LOAD_PROGRESS, START)
    return tables
