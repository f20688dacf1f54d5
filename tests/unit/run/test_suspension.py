"""A machine that was suspended for longer than `delete.retention.ms`, while a run lived."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from streaming.errors import LogChanged
from streaming.run.suspension import Suspension
from streaming.tables.clock import clock_s
from streaming.tables.schemas import GROUP_OFFSETS, LOAD_PROGRESS
from tests.support.tables.every_table import (
    apply_next,
    assert_undisturbed,
    copy_of_load,
    micro_batches,
)
from tests.support.tables.tables_folder import start_apply

DELETE_RETENTION_S = 3_600


@dataclass
class SuspendedClock:
    """Says for how long the machine was suspended."""

    suspended_s: float = 100.0

    def __call__(self) -> float:
        return self.suspended_s

    def suspend(self) -> None:
        self.suspended_s += DELETE_RETENTION_S + 1


def test_only_one_long_suspend_counts_and_until_the_next_query() -> None:
    clock = SuspendedClock()
    suspension = Suspension(DELETE_RETENTION_S, clock)
    for _ in range(3):
        clock.suspended_s += DELETE_RETENTION_S
        suspension.require_none()
    clock.suspend()
    for _ in range(2):
        with pytest.raises(LogChanged, match=r"suspended for 1\.0 h, which is longer than delete"):
            suspension.require_none()
    suspension.begin()
    suspension.require_none()


def test_nothing_is_suspended_now() -> None:
    began_s = clock_s() - time.monotonic()
    assert began_s > -1
    assert clock_s() - time.monotonic() - began_s < 1


@pytest.mark.parametrize("written", ["", GROUP_OFFSETS.name])
def test_a_micro_batch_that_is_read_beside_it_is_undone(tmp_path: Path, written: str) -> None:
    """Before the first table is written, or while rows are read and written."""
    tables = copy_of_load(tmp_path, 1)
    clock = SuspendedClock()
    suspended = start_apply(tables, fault=written, happens=clock.suspend)
    suspended.require_awake = Suspension(DELETE_RETENTION_S, clock).require_none
    if not written:
        clock.suspend()
    with pytest.raises(LogChanged, match="suspended"):
        apply_next(suspended)
    assert micro_batches(tables) == 1
    apply_next(start_apply(tables))
    assert_undisturbed(tables)


def test_a_suspend_after_the_write_is_noticed_by_the_next_micro_batch(tmp_path: Path) -> None:
    tables = copy_of_load(tmp_path, 1)
    clock = SuspendedClock()
    apply = start_apply(tables, fault=LOAD_PROGRESS.name, happens=clock.suspend)
    apply.require_awake = Suspension(DELETE_RETENTION_S, clock).require_none
    apply_next(apply)
    with pytest.raises(LogChanged, match="suspended"):
        apply_next(apply)
    assert micro_batches(tables) == 2
