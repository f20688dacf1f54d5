"""The page of a share group."""

from __future__ import annotations

import re
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


def test_the_deliveries_of_a_share_group(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    batches = [
        {"first_offset": first, "last_offset": last, "delivery_state": state, "delivery_count": n}
        for first, last, state, n in ((70, 79, 4, 5), (60, 62, 0, 2), (63, 69, 2, 1))
    ]
    partitions = [
        share_partition(60, 17, at=now, state_batches=batches),
        share_partition(-1, None, at=now, partition=1),
        share_partition(0, 0, at=now, partition=2, topic=None, topic_id="unnamed"),
    ]
    tables = create_share_tables(tmp_path / "tables", now, partitions)
    client = create_app({"prod": tables}).test_client()
    page = " ".join(
        unescape(client.get(f"/c/prod/group?group={GROUP}&tab=deliveries").text).split()
    )
    first = page[page.index(f">{TOPIC}</a></th> <td") :]
    cells = re.findall("<td[^>]*>(.*?)</td>", first)
    assert cells[:7] == ["0", "60", "17", "3", "7", "10", "5"]
    assert cells[7] == (
        "60 to 62 available <small>(2 times)</small>, "
        "63 to 69 acknowledged <small>(1 time)</small>, "
        "70 to 79 archived <small>(5 times)</small>"
    )
    assert "unnamed</th>" in page
    assert "Transactions" not in page[page.index('id="tables"') : page.index("<section", 1)]
