"""A reporter, its rounds and its failures, with a server as the catalogue."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
from streaming.lineage.reporter import API_KEY, REFUSED_S, REPEAT_S, Catalogue, LineageReporter
from tests.support.brokers.receivers import HttpReceiver
from tests.support.tables.tables_folder import apply_micro_batch, create_tables


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tables(tmp_path: Path) -> str:
    tables = create_tables(tmp_path)
    read_topics(tables, g=["t"])
    return tables


def read_topics(tables: str, **topics: list[str]) -> None:
    """Replace the groups and the topics that they read."""
    offsets = [
        {"group_id": group, "topic": topic, "partition": 0, "committed_offset": 1}
        for group, read in topics.items()
        for topic in read
    ]
    groups = [{"group_id": group} for group in topics]
    apply_micro_batch(tables, progress=[{}], groups=groups, group_offsets=offsets)


def reporter_of(
    tables: str, url: str, clock: Clock, *, key_file: str | None = None, round_s: float = 5.0
) -> LineageReporter:
    return LineageReporter(
        Catalogue(url, key_file),
        tables=tables,
        bootstrap_servers="b:9092",
        internal_topics=("__consumer_offsets",),
        interval_s=10.0,
        round_s=round_s,
        clock=clock,
    )


def events_of(receiver: HttpReceiver) -> list[str]:
    """Each event in a word: the state of a run, or a group and its topics."""
    return [
        event["eventType"]
        if "run" in event
        else f"{event['job']['name']}:{','.join(topic['name'] for topic in event['inputs'])}"
        for event in (posted.body for posted in receiver.posted)
    ]


def test_a_run_and_its_groups(tables: str, receiver: HttpReceiver, clock: Clock) -> None:
    with reporter_of(tables, receiver.url, clock) as reporter:
        reporter.report()
        reporter.report()
        read_topics(tables, g=["t", "u"], h=["t"])
        reporter.report()
        read_topics(tables, h=["t"])
        reporter.report()
    assert events_of(receiver) == ["START", "RUNNING", "g:t", "g:t,u", "h:t", "g:", "COMPLETE"]
    assert {posted.path for posted in receiver.posted} == {"/api/v1/lineage"}
    bodies = [posted.body for posted in receiver.posted]
    assert len({body["run"]["runId"] for body in bodies if "run" in body}) == 1


def test_a_failed_run(tables: str, receiver: HttpReceiver, clock: Clock) -> None:
    with pytest.raises(ConfigurationError), reporter_of(tables, receiver.url, clock):
        raise ConfigurationError("no leader")
    assert events_of(receiver) == ["START", "FAIL"]


def test_a_failure_is_logged_once_and_all_is_sent_afterwards(
    tables: str, receiver: HttpReceiver, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [500, 503, 500, 200, 500]
    with reporter_of(tables, receiver.url, clock) as reporter:
        for _ in range(3):
            reporter.report()
        read_topics(tables, g=["t", "u"])
        reporter.report()
        reporter.report()
    assert events_of(receiver) == ["START", "RUNNING", "g:t,u", "COMPLETE"]
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    fault = "cannot send events: 127.0.0.1 answered"
    assert [message.partition(": ")[2] for message in said] == [
        f"{fault} 500; attempt 1, retrying in 10.0 s",
        f"{fault} 503; attempt 2, retrying in 10.0 s",
        "reachable again after 0 s and 4 failed attempts",
    ]


@pytest.mark.parametrize("fault", ["ConnectionError", "ReadTimeout"])
def test_a_catalogue_that_does_not_answer_holds_up_nothing(
    tables: str,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    """It takes one failure or time-out for the round, and one for the end."""
    monkeypatch.setattr("streaming.lineage.reporter._TIMEOUT_S", (0.5, 0.5))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host = f"127.0.0.1:{silent.getsockname()[1] if fault == 'ReadTimeout' else 1}"
        with reporter_of(tables, f"http://{host}", clock) as reporter:
            reporter.report()
    begin = f"OpenLineage at {host}: cannot send"
    assert [record.getMessage() for record in caplog.records] == [
        f"{begin} events: 127.0.0.1: {fault}; attempt 1, retrying in 10.0 s",
        f"{begin} the end of the run: 127.0.0.1: {fault}",
    ]


def test_unreadable_tables_are_a_failure_like_others(
    tmp_path: Path, receiver: HttpReceiver, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with reporter_of(str(tmp_path / "none"), receiver.url, clock) as reporter:
        reporter.report()
        assert events_of(receiver) == ["START"]
    assert "cannot send events: " in caplog.text
    assert events_of(receiver) == ["START", "COMPLETE"]


def test_a_refused_event_does_not_hold_back_others(
    tables: str, receiver: HttpReceiver, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    read_topics(tables, g=["t"], h=["t"])
    receiver.answers = [400, 200, 422]
    with reporter_of(tables, receiver.url, clock) as reporter:
        # START and one group are refused.
        for _ in range(4):
            reporter.report()
        first, *_ = {"g:t", "h:t"}.intersection(events_of(receiver))
        assert events_of(receiver) == ["RUNNING", first]
        assert "reachable again" not in caplog.text
        clock.now = REFUSED_S
        reporter.report()
        assert set(events_of(receiver)) == {"START", "RUNNING", "g:t", "h:t"}
        assert "reachable again" in caplog.text


def test_a_run_that_was_refused_begins_at_its_end(
    tables: str, receiver: HttpReceiver, clock: Clock
) -> None:
    receiver.answers = [400]
    with reporter_of(tables, receiver.url, clock) as reporter:
        reporter.report()
    assert events_of(receiver) == ["START", "COMPLETE"]


def test_a_group_is_sent_again_after_a_day_and_once_if_it_is_gone(
    tables: str, receiver: HttpReceiver, clock: Clock
) -> None:
    with reporter_of(tables, receiver.url, clock) as reporter:
        for clock.now in (0, REPEAT_S - 1, REPEAT_S, REPEAT_S + 1):
            reporter.report()
        assert events_of(receiver) == ["START", *["RUNNING", "g:t"] * 2]
        apply_micro_batch(tables, progress=[{"state": "loading"}], groups=[], group_offsets=[])
        reporter.report()
        read_topics(tables)
        reporter.report()
        reporter.report()
        read_topics(tables, g=["t"])
        reporter.report()
    assert events_of(receiver)[5:] == ["g:", "g:t", "COMPLETE"]


def test_a_refused_group_that_is_gone_or_changes_is_not_waited_for(
    tables: str, receiver: HttpReceiver, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answers = [200, 200, 422, 422]
    with reporter_of(tables, receiver.url, clock) as reporter:
        reporter.report()
        reporter.report()
        read_topics(tables, g=["u"])
        reporter.report()
        assert events_of(receiver) == ["START", "RUNNING"]
        read_topics(tables)
        reporter.report()
        reporter.report()
    # The catalogue never had the group, so it gets no end of it.
    assert events_of(receiver) == ["START", "RUNNING", "COMPLETE"]
    assert "reachable again after 0 s and 2 failed attempts" in caplog.text


def test_the_refused_end_of_a_group_is_not_sent_again(
    tables: str, receiver: HttpReceiver, clock: Clock
) -> None:
    receiver.answers = [200, 200, 200, 422]
    with reporter_of(tables, receiver.url, clock) as reporter:
        reporter.report()
        read_topics(tables)
        reporter.report()
        clock.now += 2 * REFUSED_S
        reporter.report()
    assert events_of(receiver) == ["START", "RUNNING", "g:t", "COMPLETE"]


def test_a_round_ends_in_time(tables: str, receiver: HttpReceiver) -> None:
    read_topics(tables, **{f"g{number}": ["t"] for number in range(5)})

    class Ticking(Clock):
        def __call__(self) -> float:
            self.now += 1
            return self.now

    with reporter_of(tables, receiver.url, Ticking(), round_s=6.0) as reporter:
        reporter.report()
        sent = len(receiver.posted)
        assert 0 < sent < 7
        for _ in range(5):
            reporter.report()
    assert len(set(events_of(receiver))) == len(events_of(receiver)) == 8


def test_the_api_key(
    tables: str,
    receiver: HttpReceiver,
    clock: Clock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "key"
    file.write_text("of-file\n")
    monkeypatch.setenv(API_KEY, "of-environment")
    own_path = "/openapi/openlineage/api/v1/lineage"
    for url, key_file in ((receiver.url, str(file)), (f"{receiver.url}{own_path}", None)):
        with reporter_of(tables, url, clock, key_file=key_file):
            pass
    sent = [(posted.path, posted.headers["Authorization"]) for posted in receiver.posted]
    default = ("/api/v1/lineage", "Bearer of-file")
    assert sent == [default, default, *[(own_path, "Bearer of-environment")] * 2]
