"""The demo as a user runs it: its page, its incidents and its report; it leaves nothing behind.

`explain` finds the incident of every group while its clients are at work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest
import requests

from coordinator_state.insight.group_status import Cause
from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.local.demo.groups import DEMO_GROUPS, HANGING
from streaming.local.demo.report import is_accounted_for
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.eventually import Eventually

# Two JVMs start in each of these runs, on a machine that may have other things to do.
pytestmark = [pytest.mark.long, pytest.mark.timeout(2_000)]

_AS_ON_A_TERMINAL = """
import signal
# Whoever runs tests side by side, or in a shell's background, may have it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from streaming.cli.main import main
main()
"""
COMMAND = (sys.executable, "-c", _AS_ON_A_TERMINAL, "demo")

CAUSES = {group.group_id: Cause.CAUGHT_UP for group in DEMO_GROUPS} | {
    "search": Cause.REBALANCES,
    "refunds": Cause.ABORTED_TRANSACTIONS,
    "fraud-check": Cause.OPEN_TRANSACTION,
    "returns": Cause.OFFSET_DELETED,
    "trial": Cause.GROUP_DELETED,
    "reports": Cause.OFFSET_REWIND,
}
# The first incident of `reports` comes after a minute.
_INCIDENTS_S = 600.0


class Finished(NamedTuple):
    """A run of the demo; `folder` was its folder for temporary files."""

    folder: Path
    exit_code: int
    stdout: str
    stderr: str

    @property
    def report(self) -> dict[str, Any]:
        (line,) = self.stdout.splitlines()
        report: dict[str, Any] = json.loads(line)
        return report

    def group(self, group_id: str) -> dict[str, Any]:
        (row,) = (row for row in self.report["groups"] if row["group"] == group_id)
        group: dict[str, Any] = row
        return group


def start(folder: Path, repository: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start the demo in a process group of its own, which a terminal's Ctrl-C would reach."""
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(repository)}
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def read_until(stream: IO[str], text: str) -> str:
    """The lines up to the one with the text."""
    read = ""
    for line in stream:
        read += line
        if text in line:
            return read
    raise AssertionError(f"no line with {text!r} in:\n{read}")


def processes_of(folder: Path) -> list[str]:
    """Processes that were started, by whichever process, with the folder for temporary files."""
    marker = f"TMPDIR={folder}".encode()
    commands = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in environment.read_bytes().split(b"\0"):
                command = environment.with_name("cmdline").read_bytes()
                commands.append(command.replace(b"\0", b" ").decode(errors="replace")[:200])
        except OSError:  # it has ended meanwhile
            continue
    return commands


def assert_nothing_left(run: Finished, eventually: Eventually) -> None:
    assert not list(run.folder.glob("coordinator-state-demo-*"))
    # Spark's JVM ends when it sees that its parent has ended.
    eventually(lambda: not processes_of(run.folder))


@pytest.fixture(scope="module")
def demo(
    tmp_path_factory: pytest.TempPathFactory, repository: Path, eventually: Eventually
) -> Finished:
    """One run of the demo for all who look at its outcome.

    It lasts until `explain` has found every incident.
    """
    folder = tmp_path_factory.mktemp("demo")
    with start(folder, repository, "--output", "json") as process:
        try:
            assert process.stderr is not None
            stderr = read_until(process.stderr, "the page is at ")
            address = stderr.split()[-1]
            stderr += read_until(process.stderr, "every group has shown")
            page = requests.get(f"{address}c/demo/", timeout=60)
            assert "Consumer groups" in page.text
            (tables,) = folder.glob("coordinator-state-demo-*/tables")
            wait_for_incidents(tables, eventually)
            os.killpg(process.pid, signal.SIGINT)
            stdout, rest = process.communicate()
        finally:
            process.kill()
    return Finished(folder, process.returncode, stdout, stderr + rest)


def wait_for_incidents(tables: Path, eventually: Eventually) -> None:
    """Every group has its cause at some time: the incidents of `reports` come and go."""
    missing = {(group, cause.value) for group, cause in CAUSES.items()}

    def are_explained() -> bool:
        for group in CAUSES:
            # A group may not exist yet.
            with suppress(ConfigurationError):
                evidence = CoordinatorTables(tables).explain(group).evidence
                missing.discard((group, evidence[0].cause.value))
        return not missing

    eventually(are_explained, _INCIDENTS_S)


def test_the_tables_say_what_the_broker_says(demo: Finished) -> None:
    assert demo.exit_code == 0, demo.stdout + demo.stderr
    report = demo.report
    assert report["is_equal"]
    assert report["verify"]["is_equal"], report["verify"]
    assert report["verify"]["is_complete"]
    assert all(row["equal"] for row in report["groups"])
    assert [row["group"] for row in report["groups"]] == [g.group_id for g in DEMO_GROUPS]
    records = report["records"]
    assert is_accounted_for(records)
    assert records["read"] > records["quarantined"] == 0
    assert records["pending"] == len(report["pending"])
    assert all(row["tables"] == row["broker"] for row in report["groups"])
    kept, deleted = demo.group("returns")["tables"]
    assert kept > 0
    assert deleted is None
    assert demo.group("trial")["type"] is None
    aborted, committed = (demo.group(group_id)["tables"][0] for group_id in ("refunds", "payments"))
    assert 0 < aborted < committed


def test_an_open_transaction_is_pending_and_holds_up_no_other_group(demo: Finished) -> None:
    pending = demo.report["pending"]
    assert {row["broker"] for row in pending} == {"UNSTABLE_OFFSET_COMMIT"}
    assert all(row["committed"] < row["pending"] for row in pending)
    neighbour = demo.report["neighbour"]
    assert neighbour["log_partition"] == partition_for(HANGING.group_id)
    assert neighbour["record_offset"] > neighbour["pending_record_offset"]


def test_nothing_is_left(demo: Finished, eventually: Eventually) -> None:
    assert_nothing_left(demo, eventually)


def test_interrupts_end_the_traffic_and_then_everything(
    tmp_path: Path, repository: Path, eventually: Eventually
) -> None:
    with start(tmp_path, repository) as process:
        try:
            assert process.stderr is not None
            stderr = read_until(process.stderr, "until Ctrl-C")
            os.killpg(process.pid, signal.SIGINT)
            stderr += read_until(process.stderr, "stopping the traffic")
            os.killpg(process.pid, signal.SIGINT)
            stdout, rest = process.communicate()
        finally:
            process.kill()
    assert process.returncode == 130, stderr + rest
    assert "Traceback" not in rest
    assert stdout == ""
    assert_nothing_left(Finished(tmp_path, process.returncode, stdout, stderr + rest), eventually)
