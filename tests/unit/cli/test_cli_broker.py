"""`coordinator-state broker` and `partition-for`."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import streaming.kafka.group_location
import streaming.local.broker.embedded
from streaming.kafka.group_location import GroupLocation
from tests.support.clients.command_line import call, json_lines


def test_a_group_has_a_log_partition() -> None:
    assert call("partition-for", "testgroup").stdout == "27\n"
    assert call("partition-for", "polygenelubricants").stdout == "0\n"
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

    monkeypatch.setattr(streaming.kafka.group_location, "locate_group", locate_group)
    arguments = ["g", "--bootstrap-servers", "localhost:9092", "--kafka", "client.id=x"]

    result = call("partition-for", *arguments, exit_code=exit_code)

    assert result.stdout == "3\ncoordinator: broker 2 at b:9092\n"
    assert ("not the leader of log partition 3: the leader is broker 3" in result.stderr) == bool(
        exit_code
    )


def test_the_count_is_given_or_asked_for() -> None:
    arguments = ["g", "--partitions", "5", "--bootstrap-servers", "localhost:9092"]

    assert "exclude each other" in call("partition-for", *arguments, exit_code=2).stderr


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


def test_a_property_has_a_name_and_a_value() -> None:
    result = call("broker", "--broker-property", "a", exit_code=2)

    assert result.stderr == "Error: --broker-property 'a' is not KEY=VALUE\n"
