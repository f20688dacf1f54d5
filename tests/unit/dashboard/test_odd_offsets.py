"""Committed offsets that no consumer writes, but any client may: no page fails because of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from streaming.api.app import create_app as create_api
from streaming.dashboard.app import create_app
from streaming.served.cluster import Cluster
from tests.support.browser.html import client_of
from tests.support.tables.sample_rows import history_of, offset_row, sample
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

NOW = datetime.now(timezone.utc)
HUGE = 2**63 - 1
PAGES = (
    *("?", "overview/sparklines?", "compare?group=odd&group=usual&", "topics?"),
    *("topic?topic=t&", "transactions?", "changes?"),
    *(f"group{part}?group=odd&" for part in ("", "/chart", "/why", "/ticket", "/alert")),
    *("group/statuses?group=odd&", "group/plan?group=odd&"),
)


def tables_with(folder: Path, partition: int, committed_offset: int) -> str:
    """Two groups that read a topic; the group `odd` commits an odd offset again and again."""
    tables = create_tables(folder)
    places = [("odd", committed_offset, partition), ("odd", 5, 0), ("usual", 5, 1)]
    # Also a sum of lags may be too large.
    places += [("odd", committed_offset, number) for number in (2, 3, 4)]
    apply_micro_batch(
        tables,
        progress=[{"updated_at": NOW, "next_offset": 40, "high_watermark": 40}],
        groups=[{"group_id": name, "state": "Stable"} for name in ("odd", "usual")],
        group_offsets=[
            offset_row(group, offset, NOW, "t", number) for group, offset, number in places
        ],
        offset_commits=history_of(
            offset_row("odd", offset, NOW - timedelta(seconds=ago), "t", partition)
            for ago, offset in ((90, 3), (60, committed_offset), (30, 4), (0, committed_offset))
        ),
    )
    logs = [(end, "t", number) for end in (100, 200) for number in (0, 1, 2, 3, 4, partition, -5)]
    logs += [(end, "__consumer_offsets", 0) for end in (39, 40)]
    samples = [
        sample(NOW - timedelta(seconds=0 if end in (40, 200) else 60), end, topic, number)
        for end, topic, number in logs
    ]
    write_rows(tables, "log_offsets", samples)
    return tables


@pytest.mark.parametrize(
    ("partition", "committed_offset"),
    [(1, HUGE), (1, 2**53 + 1), (1, -(2**62)), (-1, 7), (-(2**31), 7), (2**31 - 1, HUGE)],
)
def test_every_page_answers(tmp_path: Path, partition: int, committed_offset: int) -> None:
    tables = tables_with(tmp_path / "tables", partition, committed_offset)
    page: TestClient = client_of(create_app({"prod": tables}))
    for path in PAGES:
        answer = page.get(f"/c/prod/{path}")
        assert answer.status_code == 200, (path, answer.text)
    api = client_of(create_api({"prod": Cluster("prod", tables)}))
    for path in ("groups/odd/lag", "groups/odd/explanation", "topics/t/groups"):
        assert api.get(f"/api/v1/{path}").status_code == 200, path
