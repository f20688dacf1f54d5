"""A tables folder whose runs are killed, and how a run into it is started, killed and ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

from deltalake import DeltaTable

from streaming.errors import ConfigurationError
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALL_TABLES, LOG_OFFSETS
from tests.kills.fault_points import AT, REACHED, kill, pids_of
from tests.support.clients.installed_command import command_of
from tests.support.eventually import wait_until
from tests.support.tables.status_changes import contradictions
from tests.support.tables.undisturbed import Rows, table_rows

HISTORY_RETENTION = timedelta(days=3)

_ROOT = Path(__file__).parents[2]
_JAVA_OPTIONS = "JDK_JAVA_OPTIONS"
# Those that are killed tidy up as often as they can; the undisturbed one never.
BUSY = (
    *("--lag-interval", "1 second", "--evaluation-interval", "1 second"),
    *("--upkeep-interval", "2 seconds"),
    *("--history-retention", f"{HISTORY_RETENTION.days} days"),
    # Shorter than a micro-batch of the engine `spark` takes: maintenance deletes files meanwhile.
    *("--snapshot-retention", "15 seconds"),
)
_QUIET = tuple(
    word for job in ("lag", "evaluation", "upkeep") for word in (f"--{job}-interval", "off")
)
CONTINUOUS = ("--trigger", "200 milliseconds")
_AVAILABLE_NOW = ("--available-now",)
# Whose micro-batches are small where it is killed need not read all that is left in such.
_LARGE = ("--max-records-per-trigger", "20000")
_TO_POINT_S = 300.0
"""The longest from a start to a point, on a machine that has much else to do."""


def is_kept(day: date | None) -> bool:
    """Whether history of that day is kept, which maintenance may not have come to yet."""
    return day is None or day >= datetime.now(timezone.utc).date() - HISTORY_RETENTION


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledTables:
    """`options` are those of its `run` that differ from one folder to the other.

    Tables and checkpoint are below `folder`, or at addresses of a store.
    """

    servers: str
    folder: Path
    options: tuple[str, ...] = ()
    address: str | None = None
    checkpoint_address: str | None = None

    @property
    def path(self) -> str:
        """The tables folder."""
        return self.address or str(self.folder / "tables")

    @property
    def tables_there(self) -> int:
        """How many tables are created."""
        return sum(DeltaTable.is_deltatable(table.path(self.path)) for table in ALL_TABLES)

    @property
    def version(self) -> int:
        """Of `load_progress`, -1 while it is not there."""
        try:
            return TableReader(self.path).version
        except ConfigurationError:
            return -1

    def die_after(self, life_s: float) -> None:
        """Start a run as a user does, and kill it."""
        with self.started(command_of(*self.arguments(*BUSY, *CONTINUOUS)), {}) as process:
            self._end(process, life_s)
            if process.returncode != -signal.SIGKILL:
                raise self._ended(process)

    def die_at(self, point: str, number: int, *, available_now: bool) -> bool | None:
        """Start a run that kills itself at a point; whether it came there, None where it ended."""
        reached = self.folder / "reached"
        reached.unlink(missing_ok=True)
        mode = _AVAILABLE_NOW if available_now else CONTINUOUS
        command = [sys.executable, "-m", "tests.kills.killed_run", *self.arguments(*BUSY, *mode)]
        environment = {AT: f"{point}:{number}", REACHED: str(reached)}
        with self.started(command, environment) as process:
            self._end(process, _TO_POINT_S)
        if process.returncode not in (0, -signal.SIGKILL):
            raise self._ended(process)
        is_there = reached.exists()
        return None if process.returncode == 0 and not is_there else is_there

    def catch_up(self, *, undisturbed: bool = False) -> None:
        """Read to the end of the log, which is at rest."""
        options = _QUIET if undisturbed else BUSY
        command = command_of(*self.arguments(*options, *_AVAILABLE_NOW, *_LARGE))
        with self.started(command, {}) as process:
            process.wait()
        if process.returncode:
            raise self._ended(process)

    def rows(self) -> Rows:
        """The rows of every table; history is that of the days that maintenance keeps."""
        return table_rows(self.path, lambda row: is_kept(row.get("day")))

    def doubled_samples(self) -> list[str]:
        """Samples of a partition and a moment that are there twice."""
        rows = TableReader(self.path).read(LOG_OFFSETS.name, list(LOG_OFFSETS.key)).to_pylist()
        places = Counter(tuple(row.values()) for row in rows)
        return [f"log_offsets: {n} rows of {place}" for place, n in places.items() if n > 1]

    def contradicting_statuses(self) -> list[str]:
        """What the tables of statuses say against each other."""
        return list(contradictions(TableReader(self.path)))

    @property
    def _checkpoint(self) -> str:
        return self.checkpoint_address or str(self.folder / "checkpoint")

    def arguments(self, *options: str) -> tuple[str, ...]:
        """The command line of a run."""
        return (
            *("run", "--bootstrap-servers", self.servers, "--tables", self.path, "--silent"),
            *("--checkpoint", self._checkpoint, "--history", "all", *self.options, *options),
        )

    def started(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        """A process in a session of its own, which logs below `folder`."""
        # A JVM that is killed leaves its own behind.
        temporary = self.folder / "tmp"
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        java = f"{os.environ.get(_JAVA_OPTIONS, '')} -Djava.io.tmpdir={temporary}"
        with self._log.open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,
                cwd=_ROOT,
                env={
                    **os.environ,
                    **environment,
                    _JAVA_OPTIONS: java,
                    "TMPDIR": str(temporary),
                    "PYTHONPATH": str(_ROOT),
                },
            )

    @property
    def said(self) -> str:
        """The standard error of the last run."""
        return self._log.read_text(errors="replace")

    @property
    def last_line(self) -> str:
        """The last line on standard error of the last run."""
        return "".join(self.said.splitlines()[-1:])

    @property
    def _log(self) -> Path:
        return self.folder / "run.log"

    def _end(self, process: subprocess.Popen[bytes], life_s: float) -> None:
        """Kill what still lives then, the session's other processes too."""
        try:
            process.wait(life_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            wait_until(lambda: kill_all(process.pid))
            process.wait()

    def _ended(self, process: subprocess.Popen[bytes]) -> RuntimeError:
        return RuntimeError(
            f"run into {self.folder.name} ended with exit status {process.returncode}: "
            f"{self.said[-4_000:]}"
        )


def kill_all(session: int) -> bool:
    """End every process of a session with SIGKILL; true if there was none.

    Spark's daemon makes itself a process group of its own, but stays in the session.
    """
    pids = pids_of(session) - {os.getpid()}
    for pid in pids:
        kill(pid)
    return not pids
