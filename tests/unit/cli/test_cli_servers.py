"""`coordinator-state api`, `metrics`, `broker` and `partition-for`, and the names of clusters."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import click
import pytest

import streaming.kafka.group_admin
import streaming.local.broker.embedded
from streaming.cli.servers import clusters_of
from streaming.kafka.group_admin import GroupLocation
from tests.support.clients.command_line import call, json_lines
from tests.support.clients.installed_command import command_of


@pytest.mark.parametrize(
    ("command", "path", "stop", "part"),
    [
        ("api", "/api/v1/status", signal.SIGINT, b'"cluster":"prod"'),
        ("metrics", "/metrics", signal.SIGTERM, b"coordinator_state_up 1.0"),
    ],
)
def test_it_serves_until_it_is_told_to_stop(
    tables_that_lag: str, command: str, path: str, stop: signal.Signals, part: bytes
) -> None:
    tables = f"prod={tables_that_lag}" if command == "api" else tables_that_lag
    server = command_of(command, "--tables", tables, "--port", "0")
    with subprocess.Popen(server, stderr=subprocess.PIPE, text=True) as served:
        try:
            assert served.stderr is not None
            port, *_ = re.findall(r"127\.0\.0\.1:(\d+)", served.stderr.readline())
            with closing(HTTPConnection("127.0.0.1", int(port), timeout=60)) as connection:
                connection.request("GET", path)
                assert part in connection.getresponse().read()
                connection.request("GET", path, headers={"Host": "evil.example"})
                refused = connection.getresponse()
                assert refused.status == 403
                assert b"Host evil.example is not allowed." in refused.read()
        finally:
            served.send_signal(stop)
        assert served.wait(60) == 0
        assert served.stderr.read() == ""


@pytest.mark.parametrize(
    ("folders", "names"),
    [
        (["/data/prod"], ["tables"]),
        (["prod=/data/prod", "/data/stage"], ["prod", "tables"]),
        (["/data/prod", "/data/stage"], ["prod", "stage"]),
        (["/a/tables", "/b/tables", "/c"], ["a-tables", "b-tables", "c"]),
        (["/a/x/tables", "/b/x/tables"], ["a-x-tables", "b-x-tables"]),
        (["s3://lake/prod", "s3://lake/my tables"], ["prod", "my-tables"]),
    ],
)
def test_folders_without_a_name_have_distinguishing_ones(
    folders: list[str], names: list[str]
) -> None:
    assert list(clusters_of(folders)) == names


def test_the_same_name_or_folder_twice_is_refused() -> None:
    for folders in (["/a", "/a"], ["x=/a", "x=/b"]):
        with pytest.raises(click.UsageError, match="two --tables folders have the name"):
            clusters_of(folders)


# --- `broker` and `partition-for`

BROKER = ("--bootstrap-servers", "localhost:9092")


def test_a_group_has_a_log_partition() -> None:
    assert call("partition-for", "testgroup").stdout == "27\n"
    assert call("partition-for", "my-group", "--partitions", "7").stdout == "1\n"
    assert json_lines(call("partition-for", "testgroup", "--output", "json")) == [
        {"group_id": "testgroup", "log_partition": 27, "log_partitions": 50}
    ]


@pytest.mark.parametrize(("leader", "exit_code"), [(2, 0), (3, 1)])
def test_the_coordinator_is_named_and_whether_it_leads(
    leader: int, exit_code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locate_group(group: str, servers: str, kafka: Mapping[str, str]) -> GroupLocation:
        assert (group, servers, kafka) == ("g", "localhost:9092", {"client.id": "x"})
        places = {"log_partition": 3, "log_partitions": 4, "leader": leader, "coordinator": 2}
        return GroupLocation(**places, host="b", port=9092)

    monkeypatch.setattr(streaming.kafka.group_admin, "locate_group", locate_group)
    arguments = ("g", *BROKER, "--kafka", "client.id=x")
    location = call("partition-for", *arguments, exit_code=exit_code)

    assert location.stdout == "3\ncoordinator: broker 2 at b:9092\n"
    note = "not the leader of log partition 3: the leader is broker 3"
    assert (note in location.stderr) is (exit_code == 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("api", "--tables", "/a", "--host", "192.0.2.1"), "set a token"),
        (("partition-for", "g", "--partitions", "5", *BROKER), "exclude each other"),
        (("broker", "--broker-property", "a"), "Error: --broker-property 'a' is not KEY=VALUE"),
    ],
)
def test_what_cannot_be_served_or_asked_is_refused(arguments: list[str], message: str) -> None:
    (line,) = call(*arguments, exit_code=2).stderr.splitlines()
    assert message in line


class Broker:
    """A broker that ends the command as soon as it runs."""

    bootstrap_servers = "127.0.0.1:1"
    version = "4.2.0"
    folder = Path("folder")
    log_file = Path("folder/broker.log")
    closed = 0

    def __init__(self, **options: Any) -> None:
        assert options["properties"] == {"a": "b=c"}

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_error: object) -> None:
        Broker.closed += 1

    @property
    def is_running(self) -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        return True


def test_it_runs_until_it_is_interrupted_and_stops_cleanly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming.local.broker.embedded, "EmbeddedBroker", Broker)
    arguments = ["broker", "--broker-property", "a=b=c", "--output", "json"]

    (started,) = json_lines(call(*arguments, exit_code=130))

    assert started["bootstrap_servers"] == "127.0.0.1:1"
    assert Broker.closed == 1
