"""The pages in docs/ say what is so: the columns they explain are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from coordinator_state.group_events import EventName
from coordinator_state.group_status import Status
from streaming.lag.group_lag import GROUP_LAG
from streaming.tables.schemas import GROUP_EVENTS


def columns_of(page: str, name: str) -> list[str]:
    """The first column of the table below a heading `Columns of NAME`."""
    _, _, rest = page.partition(f"## Columns of `{name}`\n")
    section, _, _ = rest.partition("\n## ")
    rows = re.findall(r"^\| ([a-z_, ]+) \|", section, re.MULTILINE)
    return [name for row in rows[1:] for name in row.split(", ")]


@pytest.mark.parametrize(
    ("page", "name", "schema"),
    [("lag.md", "group_lag", GROUP_LAG), ("events.md", "group_events", GROUP_EVENTS.schema)],
)
def test_every_column_is_explained(
    repository: Path, page: str, name: str, schema: pa.Schema
) -> None:
    found = columns_of((repository / "docs" / page).read_text(), name)
    assert sorted(found) == sorted(schema.names)


def test_every_event_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "events.md").read_text()
    found = re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE)
    assert sorted(found) == sorted(event.value for event in EventName)


def test_every_status_is_explained(repository: Path) -> None:
    page = (repository / "docs" / "status.md").read_text()
    found = re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE)
    assert found == [status.value for status in Status if status is not Status.ERR]
