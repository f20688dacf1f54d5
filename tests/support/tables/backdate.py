"""Tables whose versions look older than they are."""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

from streaming.tables.schemas import Table


def backdate(tables: str, table: Table, moment: datetime) -> None:
    """Let the versions of a table that are younger than a moment be as old as it."""
    for log in Path(table.path(tables), "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "commitInfo" in action:
                written_ms = min(
                    action["commitInfo"]["timestamp"], round(1000 * moment.timestamp())
                )
                action["commitInfo"]["timestamp"] = written_ms
        log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
        os.utime(log, (written_ms / 1000, written_ms / 1000))
