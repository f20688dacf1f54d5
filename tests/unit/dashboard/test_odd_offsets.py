"""Committed offsets that no consumer writes, but any client may: no page fails because of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.support.browser.html import api_client, page_client
from tests.support.tables.sample_rows import history_of, offset_row, sample
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

NOW = datetime.now(timezone.utc)
HUGE = 2**63 - 1
GROUPS = ("odd", "usual")
PAGES = (
    *("?", "overview/sparklines?", "compare?group=odd&group=usual&", "topics?"),
    *("topic?topic=t&", "transactions?", "changes?"),
    *(f"group{part}?group=odd&" for part in ("", "/chart", "/why", "/ticket", "/alert")),
    *("group/statuses?group=odd&", "group/plan?group=odd&"),
)


def tables_with(folder: Path, odd: dict[int, int]) -> str:
    """Two groups that read a topic; the group `odd` commits odd offsets again and again."""
    tables = create_tables(folder)
    offsets = [offset_row("odd", offset, NOW, "t", number) for number, offset in odd.items()]
    offsets += [offset_row(group, 5, NOW, "t", number) for number, group in enumerate(GROUPS)]
    apply_micro_batch(
        tables,
        progress=[{"updated_at": NOW, "next_offset": 40, "high_watermark": 40}],
        groups=[{"group_id": name, "state": "Stable"} for name in GROUPS],
        group_offsets=offsets,
        offset_commits=history_of(
            offset_row("odd", commit, NOW - timedelta(seconds=ago), "t", number)
            for number, offset in odd.items()
            for ago, commit in ((90, 3), (60, offset), (30, 4), (0, offset))
        ),
    )
    logs = [(end, "t", number) for end in (100, 200) for number in {*range(5), *odd, -5}]
    logs += [(end, "__consumer_offsets", 0) for end in (39, 40)]
    samples = [
        sample(NOW - timedelta(seconds=0 if end in (40, 200) else 60), end, topic, number)
        for end, topic, number in logs
    ]
    write_rows(tables, "log_offsets", samples)
    return tables


@pytest.mark.parametrize(
    "odd",
    [
        # Also a sum of lags may be too large.
        dict.fromkeys((1, 2, 3, 4, 2**31 - 1), HUGE),
        dict.fromkeys((1, 2, 3, 4), -(2**62)),
        {1: 2**53 + 1, -1: 7, -(2**31): 7},
    ],
)
def test_every_page_answers(tmp_path: Path, odd: dict[int, int]) -> None:
    tables = tables_with(tmp_path / "tables", odd)
    page: TestClient = page_client(prod=tables)
    for path in PAGES:
        answer = page.get(f"/c/prod/{path}")
        assert answer.status_code == 200, (path, answer.text)
    api = api_client(prod=tables)
    for path in ("groups/odd/lag", "groups/odd/explanation", "topics/t/groups"):
        assert api.get(f"/api/v1/{path}").status_code == 200, path
