"""The demo as a user runs it: its page, its incidents and its report; it leaves nothing behind.

`explain` and an agent find the incident of every group while its clients are at work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

import pytest
from mcp import StdioServerParameters

from coordinator_state.insight.evidence import Cause
from coordinator_state.replay.partitioner import partition_for
from streaming.errors import ConfigurationError
from streaming.local.demo.groups import DEMO_GROUPS, HANGING, NEIGHBOUR
from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.browser.chromium import CHROMIUM, needs_chromium
from tests.support.browser.visits import headings
from tests.support.clients.agent import connected
from tests.support.clients.incident_search import findings
from tests.support.clients.installed_command import command_of
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

PAGES = {
    "": "Consumer groups",
    "?sort=-lag": "Consumer groups",
    "group?group=billing&span=15m": "Group billing",
    "topic?topic=orders": "Topic orders",
    "transactions": "Transactions",
    "changes": "Changes",
    "alerts": "Alerts",
    "sql?query=FROM+group_lag": "SQL",
    "health": "Health of the tables",
}
INCIDENTS = {
    "search": Cause.REBALANCES,
    "refunds": Cause.ABORTED_TRANSACTIONS,
    "fraud-check": Cause.OPEN_TRANSACTION,
    "returns": Cause.OFFSET_DELETED,
    "trial": Cause.GROUP_DELETED,
    "reports": Cause.OFFSET_REWIND,
}
CAUSES = {group.group_id: Cause.CAUGHT_UP for group in DEMO_GROUPS} | INCIDENTS
# The first incident of `reports` comes after a minute.
_INCIDENTS_S = 600.0


class Finished(NamedTuple):
    """A run of the demo.

    `folder` was its folder for temporary files, `headings` what a browser saw of its page.
    """

    folder: Path
    exit_code: int
    stdout: str
    stderr: str
    headings: Mapping[str, str] = MappingProxyType({})

    @property
    def report(self) -> dict[str, Any]:
        (line,) = self.stdout.splitlines()
        report: dict[str, Any] = json.loads(line)
        return report

    def group(self, group_id: str) -> dict[str, Any]:
        (row,) = (row for row in self.report["groups"] if row["group_id"] == group_id)
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

    It lasts until `explain` and an agent have found every incident, and until a browser has visited
    each page, however long that takes on this machine.
    """
    folder = tmp_path_factory.mktemp("demo")
    with start(folder, repository, "--output", "json") as process:
        try:
            assert process.stderr is not None
            stderr = read_until(process.stderr, "the page is at ")
            address = stderr.split()[-1]
            stderr += read_until(process.stderr, "every group has shown")
            seen = {} if CHROMIUM is None else headings(f"{address}c/demo/", PAGES)
            (tables,) = folder.glob("coordinator-state-demo-*/tables")
            wait_for_incidents(tables, repository, eventually)
            os.killpg(process.pid, signal.SIGINT)
            stdout, rest = process.communicate()
        finally:
            process.kill()
    return Finished(folder, process.returncode, stdout, stderr + rest, seen)


def wait_for_incidents(tables: Path, repository: Path, eventually: Eventually) -> None:
    """Every group has its cause at some time: the incidents of `reports` come and go."""
    command, *arguments = command_of("mcp", "--tables", str(tables))
    server = StdioServerParameters(
        command=command, args=arguments, env={"PYTHONPATH": str(repository)}
    )

    def explained() -> dict[str, str]:
        causes = {}
        for group in CAUSES:
            # A group may not exist yet.
            with suppress(ConfigurationError):
                evidence = CoordinatorTables(tables).explain(group).evidence
                causes[group] = evidence[0].cause.value
        return causes

    with connected(server) as agent:
        require_all(explained, CAUSES, eventually)
        require_all(
            lambda: {group: finding.cause for group, finding in findings(agent).items()},
            INCIDENTS,
            eventually,
        )


def require_all(
    causes: Callable[[], Mapping[str, str]], expected: Mapping[str, Cause], eventually: Eventually
) -> None:
    missing = {(group, cause.value) for group, cause in expected.items()}

    def are_found() -> bool:
        missing.difference_update(causes().items())
        return not missing

    eventually(are_found, _INCIDENTS_S)


@needs_chromium
def test_the_page_shows_what_goes_on(demo: Finished) -> None:
    assert demo.headings == PAGES


def test_the_tables_say_what_the_broker_says(demo: Finished) -> None:
    assert demo.exit_code == 0, demo.stdout + demo.stderr
    report = demo.report
    assert report["is_equal"]
    assert report["verify"]["is_equal"], report["verify"]
    assert report["verify"]["moving"] == []
    assert [row["group_id"] for row in report["groups"]] == [g.group_id for g in DEMO_GROUPS]
    records = report["records"]
    assert records["is_accounted_for"]
    assert records["read"] > records["quarantined"] == 0
    assert records["pending"] == len(report["pending"])


def test_offsets_are_as_their_groups_left_them(demo: Finished) -> None:
    """Deleted, or aborted."""
    kept, deleted = demo.group("returns")["offsets"]
    assert kept["tables"]["committed_offset"] > 0
    assert deleted["tables"] is None
    gone = demo.group("trial")
    assert gone["tables"] is None
    assert [offset["tables"] for offset in gone["offsets"]] == [None, None]

    (aborted, _), (committed, _) = (
        demo.group(group_id)["offsets"] for group_id in ("refunds", "payments")
    )
    assert 0 < aborted["tables"]["committed_offset"] < committed["tables"]["committed_offset"]


def test_an_open_transaction_is_pending_beside_the_older_offset(demo: Finished) -> None:
    pending = demo.report["pending"]
    assert pending
    committed = {
        (HANGING.group_id, at["topic"], at["partition"]): at["tables"]["committed_offset"]
        for at in demo.group(HANGING.group_id)["offsets"]
    }
    for row in pending:
        key = (row["group_id"], row["topic"], row["partition"])
        assert row["broker"] == "UNSTABLE_OFFSET_COMMIT"
        assert row["committed_offset"] == committed[key] < row["pending_offset"]


def test_an_open_transaction_holds_up_no_other_group(demo: Finished) -> None:
    neighbour = demo.report["neighbour"]
    assert neighbour["log_partition"] == partition_for(HANGING.group_id)
    assert neighbour["log_partition"] == partition_for(NEIGHBOUR.group_id)
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
