"""Faults at single writes of `run` to its store: `python -m tests.faults --at-writes`.

The store holds a write of `run`: before it is done, or before it is answered. Meanwhile `run` is
killed, another program commits to the same table, a newer writer takes over the folder, or the
store fails for a while. Any process and any thread of `run` may be the one that writes.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from streaming.run.stderr import write_note
from streaming.tables.opening import open_for_writing
from streaming.tables.schemas import ALL_TABLES
from tests.faults.faulty_store import (
    AFTER,
    BEFORE,
    COMMIT_OF,
    CREATION,
    DOWN,
    DROP,
    ERROR,
    GO,
    HANGS,
    HOLD,
    SLOW_DOWN,
    SOUND,
    WRITES,
)
from tests.faults.trial import FAILED_START, PATIENCE_S, Trial
from tests.kills.killed_tables import BUSY, CONTINUOUS, KilledTables, kill_all
from tests.support.clients.installed_command import command_of
from tests.support.eventually import wait_until

KILL: Final = "a kill"
RIVAL: Final = "a rival commit"
TAKE_OVER: Final = "a newer writer"
SECOND_RUN: Final = "a second run"
OUTAGES: Final = {
    "a store that answers 500": ERROR,
    "a store that answers 503": SLOW_DOWN,
    "a store that hangs": HANGS,
    "a store that cuts connections": DOWN,
}
FAULTS: Final = (*(KILL,) * 3, *(RIVAL,) * 5, TAKE_OVER, SECOND_RUN, *OUTAGES)
"""In a pass through them, five faults end the run."""
_AT_ANY_WRITE: Final = [f"{when} {write}" for when in (BEFORE, AFTER) for write in WRITES]
_BEFORE_COMMITS: Final = [f"{BEFORE} {COMMIT_OF}{table.name}" for table in ALL_TABLES]
_NEW_POINT_S: Final = 120.0
"""A micro-batch may take as long. After it, a point of an earlier round is good enough."""
_QUERY_STARTS: Final = "starting the query"
_FENCED: Final = 2
_SHORT_S: Final = 8.0
_LONG_S: Final = 45.0
"""Longer than delta-rs waits for an answer."""
_SHARE_OF_LONG: Final = 0.15


class AtWrites(Trial):
    """Rounds of one fault each."""

    rounds_between_comparisons = 25
    _process: subprocess.Popen[bytes]
    _left: list[str]
    _is_after_outage: bool

    def disturb(self, count: int) -> None:
        """Some rounds of faults; a run continues after a fault that does not end it."""
        self._left = []
        self._start()
        try:
            for _ in range(count):
                if not self.endured.differences:
                    self._round()
        finally:
            self._kill()
            self.store.obey(SOUND)
            self.store.obey(DROP)

    def _round(self) -> None:
        self._left = self._left or self.choose.sample(FAULTS, len(FAULTS))
        fault = self._left.pop()
        began = time.monotonic()
        self.endured.rounds += 1
        if fault in (TAKE_OVER, SECOND_RUN):
            # A run that still starts would take over in turn.
            wait_until(self._has_started, PATIENCE_S)
        if fault == SECOND_RUN:
            self._let_a_second_run_start()
            name = fault
        elif (point := self._reach(fault)) is None:
            self._differ(f"no write in {PATIENCE_S:.0f} s for {fault}")
            name = fault
        else:
            self._disturb_write(fault, point)
            name = f"{fault}, {point}"
        self.endured.faults[name] += 1
        write_note(
            f"round {self.endured.rounds}, {time.monotonic() - began:.0f} s: {name}; "
            f"load_progress is at version {self.tables.version}"
        )

    def _reach(self, fault: str) -> str | None:
        """Wait until the store holds a write at a point of a fault, if possible at a new one."""
        points = _BEFORE_COMMITS if fault == RIVAL else _AT_ANY_WRITE
        if fault == TAKE_OVER:
            points = [point for point in points if CREATION not in point]
        new = [point for point in points if f"{fault}, {point}" not in self.endured.faults]
        return self._held(new or points, _NEW_POINT_S) or self._held(points, PATIENCE_S)

    def _held(self, points: list[str], timeout_s: float) -> str | None:
        self.store.obey(f"{HOLD} {','.join(points)}")
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s and not self.endured.differences:
            if (point := self.store.held(1)) is not None:
                return point
            self._start_again_if_ended()
        return None

    def _has_started(self) -> bool:
        self._start_again_if_ended()
        return _QUERY_STARTS in self.tables.said

    def _start_again_if_ended(self) -> None:
        if self._process.poll() is not None:
            if self._is_after_outage and _QUERY_STARTS not in self.tables.said:
                # A start needs the store, and retries for some seconds only.
                self.endured.faults[FAILED_START] += 1
            else:
                self._differ("run ended")
            self._start()

    def _disturb_write(self, fault: str, point: str) -> None:
        """Let a fault happen while the store holds a write at a point."""
        if fault == KILL:
            self._kill()
            self.store.obey(DROP)
            self._start()
        elif fault == RIVAL:
            _commit_to(self.tables, point.partition(COMMIT_OF)[2])
            self.store.obey(GO)
        elif fault == TAKE_OVER:
            open_for_writing(self.tables.path, fault)
            self.store.obey(GO)
            self._await_fenced(self._process, self.tables)
            self._start()
        else:
            self._is_after_outage = True
            self.store.obey(OUTAGES[fault])
            # A write that is done is not answered.
            self.store.obey(DROP if point.startswith(AFTER) else GO)
            is_long = self.choose.random() < _SHARE_OF_LONG
            time.sleep(_LONG_S if is_long else self.choose.uniform(1, _SHORT_S))
            self.store.obey(SOUND)

    def _let_a_second_run_start(self) -> None:
        """Start a run on the same tables and checkpoint; the older one must end."""
        older, tables = self._process, self.tables
        name = "second" if tables.folder.name == "disturbed" else "disturbed"
        self.tables = replace(tables, folder=tables.folder.with_name(name))
        self._start()
        self._await_fenced(older, tables)

    def _await_fenced(self, older: subprocess.Popen[bytes], tables: KilledTables) -> None:
        with suppress(subprocess.TimeoutExpired):
            older.wait(PATIENCE_S)
        status = older.poll()
        if status != _FENCED or "another writer has taken over" not in tables.last_line:
            self._differ(f"the older run has status {status}: {tables.said[-4_000:]}")
        wait_until(lambda: kill_all(older.pid))

    def _differ(self, what: str) -> None:
        said = self.tables.said[-4_000:]
        self.endured.differences.append(f"{what}; status {self._process.poll()}: {said}")

    def _start(self) -> None:
        self._is_after_outage = False
        self._process = self._started(self.tables)

    def _started(self, tables: KilledTables) -> subprocess.Popen[bytes]:
        command = command_of(*tables.arguments(*BUSY, *CONTINUOUS))
        return tables.started(command, self.store.environment)

    def _kill(self) -> None:
        wait_until(lambda: kill_all(self._process.pid))
        self._process.wait()


def _commit_to(tables: KilledTables, name: str) -> None:
    """Compact a table as another program does; commit no rows if there is nothing to compact."""
    path = f"{tables.path}/{name}"
    opened = DeltaTable(path)
    before = opened.version()
    # Maintenance of the run may commit first.
    with suppress(CommitFailedError):
        opened.optimize.compact()
    if DeltaTable(path).version() == before:
        schema = opened.schema().to_arrow()
        opened.create_write_transaction([], mode="append", schema=schema)
