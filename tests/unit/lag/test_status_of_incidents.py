"""The status of a group during an incident, by our rules and by Burrow's, and how soon.

docs/status.md has the result. `UPDATE_DOCS=1` rewrites it there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import pyarrow as pa
import pytest

from streaming.lag.burrow_status import burrow_group_statuses
from streaming.lag.group_status import group_statuses
from tests.support.tables.incident_tables import STEP_S, Cluster, Snapshots, moment, only
from tests.support.tables.incidents import INCIDENTS, WELL_S, repeats
from tests.support.tables.tables_folder import create_tables

Judge = Callable[..., pa.Table]
DOCS = Path(__file__).parents[3] / "docs/status.md"
_BEGIN, _END = "<!-- incidents: begin -->\n", "<!-- incidents: end -->\n"
_LASTS_S = 960
_RESTART = "`run` is stopped for 3 min"
_HEALTHY = {"OK", "IDLE"}


class Change(NamedTuple):
    """A status, since when a group has it, and the reason then."""

    seconds: int
    status: str
    reason: str


Changes = list[Change]


_MOMENTS = (*range(-60, 130, STEP_S), *range(130, 300, 10), *range(300, _LASTS_S + 1, 30))
"""When statuses are looked at."""


def _micro_batch_every_s(seconds: int) -> int:
    """Few micro-batches where no moment is looked at, nor one of the five minutes before it."""
    if -400 <= seconds <= 130:
        return STEP_S
    return 10 if 130 < seconds <= 300 else 30


def changes_of(snapshots: Snapshots, judge: Judge, groups: Sequence[str]) -> dict[str, Changes]:
    """The changes of the status of each group; "not seen" without a row."""
    changes_by_group: dict[str, Changes] = {group: [] for group in groups}
    for seconds in _MOMENTS:
        reader = snapshots.reader(moment(seconds))
        assert reader is not None
        rows = judge(reader, at=moment(seconds)).to_pylist()
        for group, changes in changes_by_group.items():
            row = only(rows, group) or {"status": "not seen", "reason": ""}
            if not changes or changes[-1].status != row["status"]:
                changes.append(Change(seconds, row["status"], row["reason"]))
    return changes_by_group


def _snapshots(folder: Path, step: Callable[[Cluster, int], None]) -> Snapshots:
    cluster = Cluster(seconds=-WELL_S)
    for t in range(-WELL_S, _LASTS_S + 1, STEP_S):
        step(cluster, t)
        cluster.step(_micro_batch_every_s(t))
    return cluster.snapshots(create_tables(folder))


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    def step(cluster: Cluster, t: int) -> None:
        for incident in INCIDENTS:
            incident.step(cluster, incident.group_id, t)

    return _snapshots(tmp_path_factory.mktemp("incidents"), step)


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """A healthy group while `run` is down for three minutes."""

    def step(cluster: Cluster, t: int) -> None:
        cluster.is_run_up = not 0 < t <= 180
        repeats(cluster, "well", min(t, 0))

    return _snapshots(tmp_path_factory.mktemp("restarted"), step)


@pytest.fixture(scope="module")
def ours(snapshots: Snapshots, restarted: Snapshots) -> dict[str, Changes]:
    return _by_text(snapshots, restarted, group_statuses)


@pytest.fixture(scope="module")
def burrows(snapshots: Snapshots, restarted: Snapshots) -> dict[str, Changes]:
    return _by_text(snapshots, restarted, burrow_group_statuses)


def _by_text(snapshots: Snapshots, restarted: Snapshots, judge: Judge) -> dict[str, Changes]:
    changes_by_group = changes_of(snapshots, judge, [incident.group_id for incident in INCIDENTS])
    return {
        **{incident.text: changes_by_group[incident.group_id] for incident in INCIDENTS},
        _RESTART: changes_of(restarted, judge, ["well"])["well"],
    }


def test_the_table_of_docs_is_true(ours: dict[str, Changes], burrows: dict[str, Changes]) -> None:
    text = DOCS.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    expected = f"{before}{_BEGIN}{_table(ours, burrows)}{_END}{after}"
    if os.environ.get("UPDATE_DOCS"):
        DOCS.write_text(expected)
    assert DOCS.read_text() == expected, "run this test with UPDATE_DOCS=1"


def _table(ours: dict[str, Changes], burrows: dict[str, Changes]) -> str:
    lines = ["| incident | status, and after how long | by Burrow's rules |", "|---|---|---|"]
    lines += [f"| {text} | {_cell(ours[text])} | {_cell(burrows[text])} |" for text in ours]
    reasons = [
        fill(f"{change.status}: {change.reason}", 100, subsequent_indent="    ")
        for changes in ours.values()
        for change in _during(changes)
        if change.status not in _HEALTHY
    ]
    return "\n".join(["", *lines, "", "The reasons:", "", "```", *reasons, "```", "", ""])


def _cell(changes: Changes) -> str:
    during = _during(changes)
    texts = [f"`{_burrow_status(change)}` {change.seconds} s" for change in during]
    return ", ".join(texts) or (changes[-1].status if changes[-1].status == "not seen" else "`OK`")


def _burrow_status(change: Change) -> str:
    """The status; for ERR that of the worst partition."""
    return change.reason.partition(":")[0] if change.status == "ERR" else change.status


def _during(changes: Changes) -> Changes:
    """The changes during the incident, and back to OK, not the first OK of a new group."""
    during = [change for change in changes if change.seconds > 0]
    is_healthy = all(change.status in _HEALTHY | {"not seen"} for change in during)
    if is_healthy:
        return [change for change in during if change.status == "IDLE"]
    first = next(
        i for i, change in enumerate(during) if change.status not in _HEALTHY | {"not seen"}
    )
    return during[first:]
