"""The page of a share group."""

from __future__ import annotations

from datetime import datetime, timezone
from html import unescape
from pathlib import Path

import pytest

from coordinator_state.insight.lag import NO_START_OFFSET
from streaming.dashboard.app import create_app
from tests.support.tables.share_tables import GROUP, TOPIC, create_share_tables, share_partition


@pytest.mark.parametrize("sort", ["", "committed_offset", "-committed_offset", "-lag"])
def test_the_partitions_of_a_share_group(tmp_path: Path, sort: str) -> None:
    now = datetime.now(timezone.utc)
    partitions = [
        share_partition(60, 15, at=now),
        share_partition(-1, None, at=now, partition=1),
    ]
    tables = create_share_tables(tmp_path / "tables", now, partitions, members=2)
    client = create_app({"prod": tables}).test_client()
    answer = client.get(f"/c/prod/group?group={GROUP}&sort={sort}", buffered=True)
    page = unescape(answer.text)
    assert answer.status_code == 200
    assert "Start offsets and lag by partition" in page
    assert '<td class="number">60</td>' in page
    assert '<td class="number">25</td>' in page
    assert f"<small>{NO_START_OFFSET}</small>" in page
    for path in (f"group/why?group={GROUP}", f"group/chart?group={GROUP}", f"topic?topic={TOPIC}"):
        assert client.get(f"/c/prod/{path}", buffered=True).status_code == 200
