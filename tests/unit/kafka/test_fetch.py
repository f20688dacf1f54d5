"""The client of a log: newest timestamps, and leader epochs that nobody can look up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from streaming.errors import ConfigurationError, LogChanged
from streaming.kafka.fetch import LogClient
from streaming.kafka.seen_log import OffsetAndEpoch

ENDS = {0: OffsetAndEpoch(10, 5)}


@pytest.fixture
def fails(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], LogClient]:
    """A client whose requests fail."""

    def client_of(error: Exception) -> LogClient:
        def with_retries(*_arguments: Any) -> None:
            raise error

        monkeypatch.setattr(LogClient, "with_retries", with_retries)
        return LogClient("127.0.0.1:1")

    return client_of


@pytest.mark.parametrize("error", [TimeoutError("gone"), ConfigurationError("not supported")])
def test_they_stay_unknown(fails: Callable[[Exception], LogClient], error: Exception) -> None:
    assert fails(error).with_entries(ENDS) == ENDS


def test_another_log_is_an_error(fails: Callable[[Exception], LogClient]) -> None:
    with pytest.raises(LogChanged):
        fails(LogChanged("another topic")).with_entries(ENDS)


def test_a_record_that_was_read_does_not_count() -> None:
    """A client may give a record a time of the future, and the log keeps it."""
    answers = {
        # The log partition: the newest timestamp, and the offset of its record.
        0: SimpleNamespace(timestamp=4_000, offset=6),
        1: SimpleNamespace(timestamp=4_000, offset=7),
        2: SimpleNamespace(timestamp=-1, offset=-1),
        3: SimpleNamespace(timestamp=2**63 - 1, offset=9),
    }
    client = Mock(_ask_offsets=Mock(return_value=answers))
    newest = LogClient.newest_timestamps(client, dict.fromkeys(answers, 7))
    assert newest.keys() == {1, 3}
    assert newest[1] == datetime.fromtimestamp(4, timezone.utc)
    assert newest[3].year == 9999
