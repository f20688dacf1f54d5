"""Tables in which every question of `streaming.views.questions` has an answer."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from coordinator_state.records.internal_topics import TRANSACTION_STATE_TOPIC
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
            {"group_id": "payments", "member_id": f"app-{number}", **_CLIENT, "assignment": owned}
            for number, owned in enumerate(([_place(0), _place(3)], [_place(4)], []))
        ],
        group_offsets=[
            _offset("payments", 100, ago(seconds=5)),
            _offset("payments", 3, ago(minutes=5), partition=1),
            _offset("payments", 9, ago(minutes=5), topic="deleted"),
            _offset("unused", 90, ago(days=2)),
        ],
        pending_offsets=[
            _offset("payments", 101, ago(hours=1))
            | {"producer_id": _PRODUCER, "record_timestamp": ago(hours=1), **_CLIENT}
        ],
        offset_commits=[
            _offset("payments", 100, ago(seconds=seconds))
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
            {"topic": topic, "partition": partition, "state": state}
            | {"sampled_at": ago(seconds=seconds)}
            | {"log_start_offset": start, "log_end_offset": end}
            for topic, partition, state, seconds, start, end in (
                *(("orders", 0, "present", 900, 0, 80), ("orders", 0, "present", 600, 50, 90)),
                *(("orders", 0, "present", 300, 85, 120), ("orders", 0, "present", 1, 85, 150)),
                *(("orders", 1, "present", 600, 0, 5), ("orders", 1, "present", 1, 4, 100)),
                ("deleted", 0, "gone", 1, None, None),
                ("__consumer_offsets", 0, "present", 600, 0, 0),
                ("__consumer_offsets", 0, "present", 1, 0, 40),
            )
        ],
    )
    return folder


def _place(partition: int) -> Row:
    return {"topic": "orders", "topic_id": None, "partition": partition}


def _offset(
    group_id: str, committed: int, moment: datetime, topic: str = "orders", partition: int = 0
) -> Row:
    return {
        **{"group_id": group_id, "topic": topic, "partition": partition},
        **{"committed_offset": committed, "commit_timestamp": moment, "metadata": ""},
    }


def _event(record_offset: int, event: str, moment: datetime, **columns: object) -> Row:
    return {
        **{"group_id": "payments", "event": event, "record_offset": record_offset},
        **{"record_timestamp": moment, "group_type": "classic", **_CLIENT, **columns},
    }
