"""Statuses, causes and events with their meanings: docs/status.md, explain.md and events.md."""

from __future__ import annotations

from typing import Final

from docsite.markdown import Parts, code, table
from streaming.tables.descriptions import meanings

STATUSES: Final[Parts] = {"statuses": lambda: _table("statuses", "status", "when")}
CAUSES: Final[Parts] = {"causes": lambda: _table("causes", "cause", "evidence")}
EVENTS: Final[Parts] = {
    "events": lambda: table(
        ["event", "when", "columns"],
        [
            (code(name), meaning, meanings("event_columns")[name])
            for name, meaning in meanings("events").items()
        ],
    )
}


def _table(words: str, *header: str) -> str:
    return table(header, [(code(name), meaning) for name, meaning in meanings(words).items()])
