"""Spark's JVM ends under a query, as it does where it has no memory left."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.tables.reader import TableReader
from tests.support.brokers.live_run import START_S, live_run
from tests.support.eventually import Eventually

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the JVM to kill is found in /proc, which only Linux has"
    ),
]


@pytest.mark.parametrize("least_version", [1, 2], ids=["before the query", "in the query"])
def test_a_query_without_its_jvm_says_so_and_ends(
    broker: EmbeddedBroker, tmp_path: Path, eventually: Eventually, least_version: int
) -> None:
    """Version 1 of `load_progress` is the fence; the first micro-batch writes the next one."""
    with live_run(tmp_path, "--bootstrap-servers", broker.bootstrap_servers) as run:
        eventually(lambda: _version(tmp_path / "tables") >= least_version, START_S)
        os.kill(_jvm_of(run.process.pid), signal.SIGKILL)
        assert run.process.wait(120) == 2, run.log
    assert run.log.splitlines()[-1].startswith("Error: Spark's JVM exited during the query")
    assert "SPARK_DRIVER_MEMORY" in run.log


def _version(tables: Path) -> int:
    try:
        return TableReader(str(tables)).version
    except ConfigurationError:  # they are being created
        return 0


def _jvm_of(session: int) -> int:
    """The process named java of a session."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        if name == "java" and int(rest.split()[3]) == session:
            return int(stat.parent.name)
    raise AssertionError("no JVM")
