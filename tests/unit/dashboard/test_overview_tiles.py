"""The colours of the overview's tiles: by limits, and grey if the value is unknown."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from streaming.dashboard.app import create_app
from tests.support.tables.alert_rules import lag_of
from tests.support.tables.dashboard_tables import create_dashboard_tables
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables

OFFSET = {"group_id": "g", "topic": "t", "partition": 0, "committed_offset": 1}


def tiles_of(folder: str) -> dict[str, tuple[str, str]]:
    """Level and value of each tile by its caption."""
    page = create_app({"tables": folder}).test_client().get("/c/tables/").text
    tiles = page[page.index('<ul class="tiles">') : page.index("</ul>")]
    found = re.findall(r'<li class="(\w*)">(?:<a [^>]*>)?<b>(.*?)</b> ([\w ]+)', tiles)
    tags = re.compile("<[^>]*>")
    return {caption.strip(): (level, tags.sub("", value)) for level, value, caption in found}


def tiles_with(folder: Path, *, state: str = "current", **rows: list[Row]) -> dict[str, str]:
    tables = create_tables(folder)
    quarantined = len(rows.pop("quarantined", []))
    apply_micro_batch(
        tables,
        progress=[
            {
                "next_offset": 7,
                "high_watermark": 7,
                "state": state,
                "records_quarantined": quarantined,
                "updated_at": datetime.now(timezone.utc),
            }
        ],
        **rows,
    )
    return {caption: level for caption, (level, _) in tiles_of(tables).items()}


def test_unknown_values_are_grey(tmp_path: Path) -> None:
    tiles = tiles_with(tmp_path)

    unknown = ("records behind", "greatest time lag", "alerts firing", "tables behind")
    assert [tiles[caption] for caption in unknown] == ["unknown"] * 4
    assert tiles["hanging transactions"] == tiles["records in quarantine"] == "good"


@pytest.mark.parametrize(("age_s", "level"), [(10, "good"), (70, "good"), (3_600, "bad")], ids=str)
def test_only_a_hanging_transaction_has_a_colour(tmp_path: Path, age_s: int, level: str) -> None:
    since = datetime.now(timezone.utc) - timedelta(seconds=age_s)
    pending = OFFSET | {"commit_timestamp": since, "record_timestamp": since}

    tiles = tiles_with(tmp_path, groups=[{"group_id": "g"}], pending_offsets=[pending])
    assert tiles["hanging transactions"] == level


def test_a_quarantined_record_is_a_warning(tmp_path: Path) -> None:
    assert tiles_with(tmp_path, quarantined=[{}])["records in quarantine"] == "warning"


def test_stale_tables_have_their_age_as_a_bad_value(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    lag_of(folder, 5, seconds_ago=3_600)

    assert tiles_of(folder)["tables behind"] == ("bad", "60 min")


def test_lag_has_the_severity_of_the_groups_that_are_behind(tmp_path: Path) -> None:
    tiles = tiles_of(create_dashboard_tables(tmp_path / "tables").folder)

    assert tiles["records behind"][0] == "bad"
    assert tiles["tables behind"][0] == "good"
