"""The times since which groups have their status."""

from __future__ import annotations

from pathlib import Path

from streaming.lag.standing import standing_since
from streaming.tables.reader import TableReader
from tests.support.tables.status_tables import create_status_tables


def test_without_a_group_in_trouble_nothing_is_searched(tmp_path: Path) -> None:
    reader = TableReader(create_status_tables(tmp_path / "tables"))
    assert standing_since(reader, {}, reader.moment) == {}
