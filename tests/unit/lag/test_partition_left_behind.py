"""A partition stays in trouble until its committed offset moves, whatever the group commits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streaming.lag.group_status import group_statuses
from tests.support.tables.incident_tables import STEP_S, Cluster, Snapshots, moment, only
from tests.support.tables.tables_folder import create_tables

WELL_S = 600
STOPS_S = (60, 590, 700)
LASTS_S = 1_300
MOVES_AT_S = 1_250
RESUMES = ("again", "once", "elsewhere")
GROUPS = [f"{resumes}-{stop}" for resumes in RESUMES for stop in STOPS_S]


def step(cluster: Cluster, group_id: str, t: int, left_at: dict[str, int]) -> None:
    """Both partitions stop at 0, and only partition 0 goes on after the stop.

    The group commits the old offset of partition 1 each time, once, or not at all.
    """
    resumes, _, stop = group_id.partition("-")
    if t == -WELL_S:
        cluster.members(group_id, (group_id, 2))
    for partition in (0, 1):
        end = cluster.produce(group_id, 100 * STEP_S, partition)
        if t <= 0 or t >= MOVES_AT_S:
            cluster.commit(group_id, end, partition)
            left_at[group_id] = end
        elif t > int(stop) and partition == 0:
            cluster.commit(group_id, end, partition)
        elif (resumes == "again" and t > int(stop)) or (
            resumes == "once" and t == int(stop) + STEP_S
        ):
            cluster.commit(group_id, left_at[group_id], partition)


@pytest.fixture(scope="module")
def snapshots(tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    cluster, left_at = Cluster(seconds=-WELL_S), dict[str, int]()
    runs_at = {*range(-WELL_S, 0, 60), *range(0, LASTS_S + 1, 50), *moments()}
    for t in range(-WELL_S, LASTS_S + 1, STEP_S):
        cluster.is_run_up = t in runs_at
        for group_id in GROUPS:
            step(cluster, group_id, t, left_at)
        cluster.step()
    return cluster.snapshots(create_tables(tmp_path_factory.mktemp("left")))


def moments() -> Sequence[int]:
    """Each step after a group goes on, and when commits leave the time that is looked at."""
    often = [stop + step for stop in STOPS_S for step in range(0, 65, STEP_S)]
    return sorted({*often, *range(55, MOVES_AT_S, 35), *range(595, 625, STEP_S)})


def test_a_partition_that_stays_behind_keeps_its_group_in_trouble(snapshots: Snapshots) -> None:
    for seconds in moments():
        reader = snapshots.reader(moment(seconds))
        assert reader is not None
        rows = group_statuses(reader, at=moment(seconds)).to_pylist()
        for group_id in GROUPS:
            row = only(rows, group_id)
            assert row is not None
            verdict = f"{group_id} at {seconds} s: {row['status']} {row['reason']}"
            assert row["status"] in {"STOP", "STALL"}, verdict
            assert row["partition"] == 1 or seconds <= int(group_id.partition("-")[2]), verdict


def test_the_group_is_well_when_the_partition_moves(snapshots: Snapshots) -> None:
    reader = snapshots.reader(moment(LASTS_S))
    assert reader is not None
    rows = group_statuses(reader, at=moment(LASTS_S)).to_pylist()
    assert {row["group_id"]: row["status"] for row in rows} == dict.fromkeys(GROUPS, "OK")
