"""Tables whose present is the end of an incident."""

from __future__ import annotations

from datetime import datetime

import pytest

from streaming.agents import clusters
from streaming.tables.reader import TableReader


def pin_moment(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    """Let tools answer as if it were a moment, except for tables of a given time."""

    def moment(reader: TableReader) -> datetime:
        as_of = reader._as_of
        return as_of if isinstance(as_of, datetime) else now

    monkeypatch.setattr(TableReader, "moment", property(moment))
    monkeypatch.setattr(clusters, "parse_as_of", lambda _: None)
