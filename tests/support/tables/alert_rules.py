"""A group that is behind, and rules that tell a receiver of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from tests.support.brokers.receivers import HttpReceiver
from tests.support.tables.tables_folder import apply_micro_batch, write_rows


def lag_of(folder: str, lag: int, *, seconds_ago: float = 0, group_id: str = "g") -> None:
    """A group that is behind by so much, by the samples and the last write of some time ago."""
    now = datetime.now(timezone.utc) - timedelta(seconds=seconds_ago)
    apply_micro_batch(
        folder,
        progress=[{"updated_at": now}],
        groups=[{"group_id": group_id, "state": "Stable", "member_count": 1}],
        group_offsets=[
            {
                **{"group_id": group_id, "topic": "t", "partition": 0},
                **{"committed_offset": 1_000 - lag, "commit_timestamp": now},
            }
        ],
    )
    write_rows(
        folder,
        "log_offsets",
        [
            {
                **{"topic": topic, "partition": 0, "state": "present", "topic_id": "T"},
                **{"sampled_at": now - timedelta(seconds=ago), "day": now.date()},
                **{"log_start_offset": 0, "log_end_offset": end, "last_stable_offset": end},
            }
            for ago in (40, 0)
            for topic, end in (("t", 1_000), ("__consumer_offsets", 0))
        ],
    )


def write_rules(folder: Path, url: str, condition: str = "lag: '> 10'", **more: str) -> str:
    file = folder / "alerts.yaml"
    rule = {"note": "x", **more}
    file.write_text(
        f"interval: 0.2s\nsinks: {{hook: {{type: webhook, url: '{url}'}}}}\n"
        f"rules:\n- name: behind\n  {condition}\n"
        + "".join(f"  {name}: {value}\n" for name, value in rule.items())
    )
    return str(file)


def told(receiver: HttpReceiver) -> list[str]:
    return [alert["status"] for alert in receiver.alerts]
