"""The requests for leader epochs, and epochs that nobody can look up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
