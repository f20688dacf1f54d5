"""A group that is behind, and rules that tell a receiver of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from tests.support.brokers.receivers import HttpReceiver
from tests.support.tables.sample_rows import sample
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
            sample(now - timedelta(seconds=ago), end, topic)
            for ago in (40, 0)
            for topic, end in (("t", 1_000), (OFFSETS_TOPIC, 0))
        ],
    )


def write_rules(
    folder: Path, url: str, condition: str = "lag: '> 10'", *, settings: str = "", **more: str
) -> str:
    """A file with one rule, `behind`; `settings` are further rules, or other keys."""
    file = folder / "alerts.yaml"
    rule = {"note": "x", "keep_firing_for": "0s", **more}
    file.write_text(
        f"interval: 0.2s\nsinks: {{hook: {{type: webhook, url: '{url}'}}}}\n"
        f"rules:\n- name: behind\n  {condition}\n"
        + "".join(f"  {name}: {value}\n" for name, value in rule.items())
        + settings
    )
    return str(file)


def sent_statuses(receiver: HttpReceiver) -> list[str]:
    return [alert["status"] for alert in receiver.alerts]
