"""Tables whose present is a fixed time, however long the tests over them take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from streaming.tables.reader import TableReader


@contextmanager
def held_at(tables: str, now: datetime) -> Iterator[None]:
    """Let readers in this process take `now` for the present of these tables.

    Other tables and past moments are as before. Without it, tables are stale two minutes after
    they were written, and every status is UNKNOWN.
    """
    of_others = TableReader.moment

    def moment(reader: TableReader) -> datetime:
        if reader.tables == tables and reader._as_of is None:
            return now
        present: datetime = of_others.__get__(reader)
        return present

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(TableReader, "moment", property(moment))
        yield
