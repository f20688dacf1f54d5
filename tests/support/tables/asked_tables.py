"""Tables in which every question of `streaming.views.questions` has an answer."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from coordinator_state.records.internal_topics import TRANSACTION_STATE_TOPIC
from tests.support.tables.sample_rows import member_row, offset_row, sample
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

_CLIENT = {"client_id": "app-1", "client_host": "/10.0.0.1"}
_PRODUCER = 7


def create_asked_tables(in_folder: Path, now: datetime, **progress: object) -> str:
    """One micro-batch written at `now`; further columns of `load_progress` may be given."""

    def ago(**duration: float) -> datetime:
        return now - timedelta(**duration)

    folder = create_tables(in_folder)
    apply_micro_batch(
        folder,
        progress=[
            {"updated_at": now, "next_offset": 40, "high_watermark": 40}
            | {"records_read": 40, "records_applied": 30, "records_superseded": 9}
            | {"records_quarantined": 1, "records_unaccounted": 0, **progress}
        ],
        groups=[
            {"group_id": "payments", "state": "Stable", "member_count": 2, "generation": 3},
            {"group_id": "unused"},
        ],
        group_members=[
            member_row("payments", f"app-{number}", "orders", owned, **_CLIENT)
            for number, owned in enumerate(([0, 3], [4], []))
        ],
        group_offsets=[
            offset_row("payments", 100, ago(seconds=5), "orders"),
            offset_row("payments", 3, ago(minutes=5), "orders", 1),
            offset_row("payments", 9, ago(minutes=5), "deleted"),
            offset_row("unused", 90, ago(days=2), "orders"),
        ],
        pending_offsets=[
            offset_row("payments", 101, ago(hours=1), "orders")
            | {"producer_id": _PRODUCER, "record_timestamp": ago(hours=1), **_CLIENT}
        ],
        offset_commits=[
            offset_row("payments", 100, ago(seconds=seconds), "orders", metadata="")
            | {"record_offset": number, "outcome": outcome}
            for number, (seconds, outcome) in enumerate(
                [(90, "committed"), (40, "aborted"), (5, "committed")]
            )
        ],
        group_events=[
            _event(10, "offset_rewind", ago(minutes=5), offset_before=100, offset_after=3)
            | {"topic": "orders", "partition": 1},
            _event(11, "rebalance", ago(minutes=20), epoch_before=2, epoch_after=3),
            _event(12, "member_joined", ago(minutes=20), member_id="app-1"),
            _event(13, "transaction_hung", ago(minutes=59), duration_ms=60_000, outcome="pending")
            | {"topic": "orders", "partition": 0, "producer_id": _PRODUCER},
        ],
        quarantine=[
            {"log_topic": "__consumer_offsets", "log_partition": 0, "record_offset": 20}
            | {"record_timestamp": now, "record_type": 99, "reason": "unknown record type 99"}
        ],
        transactions=[
            {"transactional_id": "billing", "producer_id": _PRODUCER, "state": "Ongoing"}
            | {"last_update_timestamp": ago(hours=1), "start_timestamp": ago(hours=1)}
        ],
        transaction_events=[
            {"record_offset": 1, "record_timestamp": ago(days=1), "event": "timed_out"}
            | {"transactional_id": "billing", "producer_id": _PRODUCER, "producer_epoch": 0}
            | {"timeout_ms": 60_000, "state": "CompleteAbort", "topic_partitions": []}
        ],
        topic_progress=[
            {"log_topic": TRANSACTION_STATE_TOPIC, "next_offset": 2, "high_watermark": 2}
            | {"records_read": 2, "records_applied": 2, "updated_at": now}
        ],
    )
    write_rows(
        folder,
        "log_offsets",
        [
            sample(ago(seconds=seconds), end, topic, partition, log_start_offset=start)
            for topic, partition, seconds, start, end in (
                *(("orders", 0, 900, 0, 80), ("orders", 0, 600, 50, 90)),
                *(("orders", 0, 300, 85, 120), ("orders", 0, 1, 85, 150)),
                *(("orders", 1, 600, 0, 5), ("orders", 1, 1, 4, 100)),
                ("deleted", 0, 1, None, None),
                *(("__consumer_offsets", 0, 600, 0, 0), ("__consumer_offsets", 0, 1, 0, 40)),
            )
        ],
    )
    return folder


def _event(record_offset: int, event: str, moment: datetime, **columns: object) -> Row:
    return {
        **{"group_id": "payments", "event": event, "record_offset": record_offset},
        **{"record_timestamp": moment, "group_type": "classic", **_CLIENT, **columns},
    }
