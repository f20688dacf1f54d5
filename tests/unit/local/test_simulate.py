"""`simulate`: logs by a seed, in files and in tables; and the workload behind it."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import signal
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import requests

from coordinator_state.log.record_batch import RecordBatch, read_record_batches
from coordinator_state.model.plain_commits import PlainCommits
from coordinator_state.model.workload import MINUTE_MS, Workload, WorkloadSettings
from coordinator_state.records.serde import decode_key
from coordinator_state.replay.offsets import Semantics
from streaming.tables.reader import TableReader
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.installed_command import command_of
from tests.support.eventually import Eventually

PATIENCE_S = 240.0
both = pytest.mark.parametrize("semantics", list(Semantics))


@cache
def busy(semantics: Semantics, clean_every_ms: int | None) -> Workload:
    """A few hours in which everything happens; the tests only read it."""
    settings = WorkloadSettings(
        seed=3,
        groups=12,
        commit_interval_ms=2 * MINUTE_MS,
        stops_per_hour=4,
        offsets_retention_ms=30 * MINUTE_MS,
        clean_every_ms=clean_every_ms,
        log_partitions=2,
        semantics=semantics,
    )
    workload = Workload(settings)
    workload.run(150 * MINUTE_MS)
    return workload


def kinds_of(logs: list[tuple[int, bytes]]) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for _, log in logs:
        for batch in read_record_batches(log):
            assert isinstance(batch, RecordBatch)
            for record in batch.records:
                if batch.is_control:
                    kinds["marker"] += 1
                else:
                    record_type = decode_key(record.key or b"").record_type.id
                    kinds[f"{record_type}{'-' if record.value is None else ''}"] += 1
            kinds["empty batch"] += not batch.records
    return kinds


@pytest.mark.parametrize("clean_every_ms", [None, 20 * MINUTE_MS])
@both
def test_what_groups_did_is_in_the_logs(semantics: Semantics, clean_every_ms: int | None) -> None:
    workload = busy(semantics, clean_every_ms)
    kinds = kinds_of(list(workload.logs()))
    assert {"1", "1-", "2", "2-", "marker"} <= set(kinds)
    of_consumer_groups = {"3", "3-", "5", "5-", "6", "6-", "7", "7-", "8", "8-"}
    assert (of_consumer_groups <= set(kinds)) == (semantics is Semantics.COORDINATOR)
    assert (sum(kinds.values()) < workload.records) == (clean_every_ms is not None)


def test_the_same_seed_is_the_same_log() -> None:
    again = busy.__wrapped__(Semantics.COORDINATOR, None)
    assert dict(again.logs()) == dict(busy(Semantics.COORDINATOR, None).logs())


def test_simulate_into_a_file(tmp_path: Path) -> None:
    file = tmp_path / "new" / "log"
    arguments = ("--seed", "7", "--groups", "5", "--records", "500", "--output", "json")
    (done,) = json_lines(call("simulate", *arguments, "--file", str(file)))
    assert done["records"] >= 500
    assert done["bytes"] == file.stat().st_size
    records = [json.loads(line) for line in call("decode", "--file", str(file)).stdout.splitlines()]
    assert [record["recordOffset"] for record in records] == list(range(done["records"]))

    again = call("simulate", *arguments, "--file", str(file), exit_code=2)
    assert "already exists" in again.stderr
    (whole,) = json_lines(
        call("simulate", *arguments, "--log-partitions", "3", "--file", str(tmp_path / "folder"))
    )
    segments = sorted((tmp_path / "folder").rglob("*.log"))
    folders = [f"__consumer_offsets-{number}" for number in range(3)]
    assert [segment.parent.name for segment in segments] == folders
    assert sum(segment.stat().st_size for segment in segments) == whole["bytes"]


def test_the_example_of_the_docs(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (repository / "docs" / "simulate.md").read_text()
    ((command, shown),) = re.findall(r"\$ coordinator-state (.*)\n(.*)\n```", page)
    monkeypatch.chdir(tmp_path)
    assert call(*shlex.split(command)).stdout == f"{shown}\n"
    for module, name in re.findall(r"^from (\S+) import (\w+)", page, re.MULTILINE):
        assert hasattr(importlib.import_module(module), name)


def test_simulate_plain_commits(tmp_path: Path) -> None:
    file = tmp_path / "log"
    arguments = ("simulate", "--workload", "commits", "--records", "2000", "--groups", "9")
    call(*arguments, "--file", str(file))
    commits = PlainCommits(
        count=2_000, key_count=90, from_ms=WorkloadSettings().from_ms, log_partitions=1
    )
    assert [file.read_bytes()] == [log for _, log in commits.logs()]
    tables = tmp_path / "tables"
    call(*arguments, "--tables", str(tables))
    assert TableReader(str(tables)).read("group_offsets").num_rows == 90


@pytest.mark.parametrize("seed", range(2))
def test_a_single_group_never_ends_the_simulation(seed: int) -> None:
    settings = WorkloadSettings(seed=seed, groups=1, stops_per_hour=6, log_partitions=1)
    workload = Workload(settings)
    workload.run_until(3_000)
    assert workload.records >= 3_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("simulate --file log --seed -1", "--seed"),
        (f"simulate --file {'x' * 300}", "File name too long"),
        ("simulate --file /proc/none/log", "cannot write"),
        ("simulate --file log --workload commits --semantics scala", "--semantics coordinator"),
        ("simulate", "one of --file, --tables and --bootstrap-servers"),
        ("simulate --file f --tables t", "one of --file, --tables and --bootstrap-servers"),
        ("simulate --compact --tables t", "--compact needs --file"),
        ("simulate --scenario x", "--scenario needs --tables"),
        ("alert test", "give --tables and --rules-file, or --scenario"),
        ("alert test --scenario x --tables t", "--scenario plays its own tables, and tests all"),
        ("demo --offline --kafka-version 3.9.1", "remove --kafka-version"),
        ("demo --offline --folder 3.9.1", "remove --folder"),
    ],
)
def test_options_that_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said in call(*arguments.split(), exit_code=2).stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workload", ["groups", "commits"])
def test_every_log_partition_is_current_the_empty_ones_too(tmp_path: Path, workload: str) -> None:
    tables = str(tmp_path / "tables")
    simulate = ("simulate", "--workload", workload, "--groups", "3", "--records", "200")
    call(*simulate, "--tables", tables)
    states = {p: load.state for p, load in TableReader(tables).load_states.items()}
    assert states == dict.fromkeys(range(50), "current")
    unknown = call("offsets", "no-such-group", "orders:0", "--tables", tables, exit_code=1)
    header, answer = unknown.stdout.splitlines()
    assert dict(zip(header.split(), answer.split(), strict=False))["committed_offset"] == "-1"
    assert "NOT_COORDINATOR" not in answer
    (warning,) = unknown.stderr.splitlines()
    assert warning.startswith("Warning: unknown group no-such-group")
    # Tables are not written over.
    assert "already has tables" in call(*simulate, "--tables", tables, exit_code=2).stderr


@pytest.mark.long
def test_the_report_of_the_demo_without_a_broker_as_json() -> None:
    arguments = ("demo", "--offline", "--seconds", "1", "--no-dashboard", "--output", "json")
    (report,) = json_lines(call(*arguments))
    assert len(report["groups"]) == 20
    assert all(group["equal"] for group in report["groups"])
    assert report["verify"]["is_equal"]
    assert report["verify"]["equal"]["offset"] > 0


def test_the_demo_keeps_its_tables_in_an_empty_folder_only(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = call("demo", "--folder", str(tmp_path), exit_code=2)
    assert f"{tmp_path} is not an empty folder" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_the_demo_without_a_broker_needs_no_java_and_ends_with_ctrl_c(
    tmp_path: Path, eventually: Eventually
) -> None:
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    environment = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "DISPLAY")}
    stderr = tmp_path / "stderr"
    with (
        stderr.open("wb") as said,
        subprocess.Popen(
            command_of("demo", "--offline"),
            env={**environment, "PATH": str(nothing)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        ) as demo,
    ):
        try:
            address = eventually(lambda: _said(stderr, r"the page is at (\S+)"), PATIENCE_S)
            tables = _said(stderr, r"the tables will be in (\S+)")
            assert requests.get(address, timeout=PATIENCE_S).ok
            # From the first micro-batch on, an interrupt ends the demo and not the process.
            eventually(lambda: TableReader(tables).read("group_offsets").num_rows, PATIENCE_S)
            demo.send_signal(signal.SIGINT)
            shown, _ = demo.communicate(timeout=PATIENCE_S)
        finally:
            demo.kill()
    assert demo.returncode == 0
    assert "comparing the tables with the simulated coordinators ..." in stderr.read_text()
    _, _, header, *rows, blank, records, verdict = shown.splitlines()
    assert header.split() == ["group", "type", "state", "members", "offsets", "pending", "equal"]
    assert rows
    assert all(row.startswith("group-0000") and row.endswith("true") for row in rows)
    assert blank == ""
    assert re.fullmatch(r"[\d,]+ records", records)
    assert verdict.startswith("verify: equal: ")
    assert not Path(tables).exists()


def _said(stderr: Path, pattern: str) -> str:
    match = re.search(pattern, stderr.read_text())
    return "" if match is None else match[1]
