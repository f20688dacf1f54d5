"""A query that runs while commits arrive, and what can be read of its tables meanwhile."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.processes import run_command, run_environment
from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError
from streaming.tables.reader import TableReader

LOOK_EVERY_S: Final = 0.02
_MICRO_BATCH: Final = re.compile(r"micro-batch \d+: (\d+) records read, .* (\d+) ms$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """The process of a `run`, and where it logs."""

    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def pid(self) -> int:
        """The process's id."""
        return self.process.pid

    def require_alive(self) -> None:
        """Raise where it has ended, with what it logged last."""
        if self.process.poll() is not None:
            last = self.log_file.read_text(errors="replace").splitlines()[-1:]
            raise RuntimeError(f"run ended with exit status {self.process.returncode}: {last}")

    def micro_batches_ms(self) -> list[int]:
        """How long each micro-batch with records took so far."""
        matches = _MICRO_BATCH.findall(self.log_file.read_text(errors="replace"))
        return [int(duration_ms) for records, duration_ms in matches if records != "0"]


@dataclass(slots=True)
class Watch:
    """When each version of `load_progress` was there to be read, and how far it went."""

    tables: str
    seen: list[tuple[float, dict[int, int]]] = field(default_factory=list)
    _version: int = -1

    def look(self) -> None:
        """Note a version that is new."""
        try:
            reader = TableReader(self.tables)
        except ConfigurationError:  # they are not there yet
            return
        if reader.version != self._version:
            self._version = reader.version
            ends = {p: state.next_offset for p, state in reader.load_states.items()}
            self.seen.append((time.monotonic(), ends))

    @property
    def totals(self) -> list[tuple[float, int]]:
        """When each version was there, and how many offsets of the log it is past."""
        return [(at, sum(ends.values())) for at, ends in self.seen]

    def look_until(
        self, query: RunningQuery, ends: dict[int, int] | None = None, commits: int = 0
    ) -> None:
        """Look until there are tables with these records and so many.

        Raises:
            RuntimeError: the query ended before.
        """
        while True:
            self.look()
            reached = self.seen[-1][1] if self.seen else {}
            is_there = all(reached.get(p, 0) > at for p, at in (ends or {}).items())
            if self.seen and is_there and sum(reached.values()) >= commits:
                return
            query.require_alive()
            time.sleep(LOOK_EVERY_S)

    def ages_s(self, acknowledged: list[tuple[int, int, float]]) -> list[float]:
        """How old each record was when it could be read."""
        return [
            max(next(at for at, ends in self.seen if ends.get(p, 0) > offset) - when, 0.0)
            for p, offset, when in acknowledged
        ]


def committed_offsets(tables: str) -> dict[OffsetKey, int]:
    """The tables' answer."""
    rows = TableReader(tables).read("group_offsets", [*OffsetKey._fields, "committed_offset"])
    columns = (rows[name].to_pylist() for name in rows.column_names)
    return {OffsetKey(*key): offset for *key, offset in zip(*columns, strict=True)}


@contextmanager
def running_query(bootstrap_servers: str, folder: Path, *options: str) -> Iterator[RunningQuery]:
    """A `run` with tables, checkpoint and log below `folder`; it is stopped and waited for."""
    log_file = folder / f"run-{time.monotonic_ns()}.log"
    with (
        log_file.open("wb") as log,
        subprocess.Popen(
            run_command(bootstrap_servers, folder, "--silent", *options),
            env=run_environment(),
            stderr=log,
            start_new_session=True,
        ) as query,
    ):
        try:
            yield RunningQuery(query, log_file)
        finally:
            query.send_signal(signal.SIGTERM)
