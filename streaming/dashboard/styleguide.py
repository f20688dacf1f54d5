"""The components page: the design tokens and every component of the pages, with fixed values."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Final

from coordinator_state.insight.state_meanings import STATE_MEANINGS, STATUS_MEANINGS
from streaming.dashboard.rendered import render_template
from streaming.dashboard.tables_of_rows import rows_page
from streaming.served.snapshot import worst_first
from streaming.views.list_query import Column, columns

_TOKENS_FILE: Final = Path(__file__).with_name("static") / "tokens.css"
_FAMILY: Final = re.compile(r"/\* (?P<family>[^*]+) \*/")
_TOKEN: Final = re.compile(r"(?P<name>--[a-z0-9-]+): (?P<value>[^;]+);")
_AT: Final = datetime(2026, 11, 21, 3, 14, tzinfo=timezone.utc)
_COLUMNS: Final = (
    Column("group_id", "Group", "own", "group_id", is_ascending=True),
    *columns("own", status="Status"),
    *columns("number", lag="Lag"),
    *columns("duration", time_lag_ms="Time lag"),
)
_ROWS: Final = (
    {"group_id": "payments", "status": "STOP", "lag": 12_400, "time_lag_ms": 312_000},
    {"group_id": "search", "status": "REBALANCING_LOOP", "lag": 16, "time_lag_ms": 1_600},
    {"group_id": "billing", "status": "OK", "lag": 0, "time_lag_ms": 0},
)


def page() -> str:
    """Show the tokens and the components."""
    return render_template(
        "styleguide.html",
        families=tokens(_TOKENS_FILE.read_text("utf-8")),
        statuses=[status.value for status in STATUS_MEANINGS],
        states=list(STATE_MEANINGS),
        at=_AT,
        moments=[_AT - timedelta(seconds=seconds) for seconds in (4, 312, 7_200)],
        table=replace(
            rows_page(_ROWS, _COLUMNS, sort="-lag"),
            statuses=worst_first(Counter(str(row["status"]) for row in _ROWS)),
        ),
    )


def tokens(css: str) -> Mapping[str, Sequence[tuple[str, str]]]:
    """The names and values of the custom properties of a style sheet, by family.

    >>> dict(tokens("/* Sizes */ --big: 2rem; --small: 1rem;"))
    {'Sizes': [('--big', '2rem'), ('--small', '1rem')]}
    """
    tokens_by_family: dict[str, list[tuple[str, str]]] = defaultdict(list)
    family = ""
    for match in re.finditer(f"{_FAMILY.pattern}|{_TOKEN.pattern}", css):
        if match["family"]:
            family = match["family"].partition(":")[0]
        else:
            tokens_by_family[family].append((match["name"], match["value"]))
    return tokens_by_family
