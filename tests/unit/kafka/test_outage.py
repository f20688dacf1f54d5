"""The lines in the log about a cluster that does not answer."""

from __future__ import annotations

import logging
from contextlib import closing

import pytest

from streaming.errors import ConfigurationError
from streaming.kafka.fetch import LogClient
from streaming.kafka.outage import Outage


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def test_equal_failures_are_logged_once_and_then_counted_each_minute(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    refused = Outage("Kafka at b:1", "fetch", logged_after_s=1, clock=clock)
    for _ in range(20):
        refused.failed(ConnectionError("refused"), 5)
        clock.now += 5
    refused.ended()

    assert warnings(caplog) == [
        "Kafka at b:1: cannot fetch: refused; attempt 1, retrying in 5.0 s",
        "Kafka at b:1: cannot fetch: refused; attempt 13, retrying in 5.0 s",
        "Kafka at b:1: reachable again after 100 s and 20 failed attempts",
    ]


def test_another_failure_is_logged_at_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    moved = Outage("Kafka at b:1", "fetch", logged_after_s=1, clock=clock)
    for error in ("refused", "refused", "no leader", "refused"):
        moved.failed(ConnectionError(error), 2)
        clock.now += 2

    assert warnings(caplog) == [
        "Kafka at b:1: cannot fetch: refused; attempt 1, retrying in 2.0 s",
        "Kafka at b:1: cannot fetch: no leader; attempt 3, retrying in 2.0 s",
    ]


def test_a_short_outage_is_not_logged(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    short = Outage("Kafka at b:1", "fetch", logged_after_s=1, clock=clock)
    short.failed(ConnectionError("refused"), 0.2)
    clock.now += 0.2
    short.ended()

    assert warnings(caplog) == []


def test_a_wrong_address_is_one_warning_and_an_error_with_the_number_of_attempts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        closing(LogClient("127.0.0.1:1", first_contact_timeout_ms=1_500)) as client,
        pytest.raises(ConfigurationError, match=r"REFUSED; \d+ attempts in \d s; check"),
    ):
        client.describe()

    assert len(warnings(caplog)) == 1


def test_a_caller_that_asks_again_soon_logs_failures_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        closing(LogClient("127.0.0.1:1", retry_timeout_ms=1_300, has_worked=True)) as client,
        pytest.raises(TimeoutError, match=r"cannot describe the topic, retried for 1 s: .*REFUSED"),
    ):
        client.describe()

    assert warnings(caplog) == []
