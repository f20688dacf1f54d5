"""The newest record timestamps of logs, as far as their records are unread."""

from __future__ import annotations

from datetime import datetime, timezone
from types import SimpleNamespace
from unittest.mock import Mock

from streaming.kafka.fetch import LogClient


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
