"""A group that is behind, and rules that tell a receiver of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from tests.support.brokers.receivers import HttpReceiver
from tests.support.tables.sample_rows import offset_row, sample
from tests.support.tables.tables_folder import apply_micro_batch, write_rows


def lag_of(
    folder: str,
    lag: int,
    *,
    seconds_ago: float = 0,
    group_id: str = "g",
    end: int | None = 1_000,
    **log: Any,
) -> None:
    """A group that is so far behind 1,000, by the samples and the last write of some time ago."""
    now = datetime.now(timezone.utc) - timedelta(seconds=seconds_ago)
    apply_micro_batch(
        folder,
        progress=[{"updated_at": now}],
        groups=[{"group_id": group_id, "state": "Stable", "member_count": 1}],
        group_offsets=[offset_row(group_id, 1_000 - lag, now)],
    )
    moments = (now - timedelta(seconds=40), now)
    samples = [sample(at, end, **log) for at in moments]
    write_rows(folder, "log_offsets", samples + [sample(at, 0, OFFSETS_TOPIC) for at in moments])


def write_rules(
    folder: Path,
    url: str,
    condition: str = "lag: '> 10'",
    *,
    name: str = "behind",
    settings: str = "",
    **more: str,
) -> str:
    """A file with one rule; `settings` are further rules, or other keys."""
    file = folder / "alerts.yaml"
    rule = {"note": "x", "keep_firing_for": "0s", **more}
    file.write_text(
        f"interval: 0.2s\nsinks: {{hook: {{type: webhook, url: '{url}'}}}}\n"
        f"rules:\n- name: {name}\n  {condition}\n"
        + "".join(f"  {key}: {value}\n" for key, value in rule.items())
        + settings
    )
    return str(file)


def sent_statuses(receiver: HttpReceiver) -> list[str]:
    return [alert["status"] for alert in receiver.alerts]
