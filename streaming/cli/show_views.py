"""The tables that `coordinator-state show` prints."""

from __future__ import annotations

from typing import NamedTuple


class View(NamedTuple):
    """A table, the columns of its text output, and the sort order of its rows."""

    table: str
    columns: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def has_groups(self) -> bool:
        """Whether its rows have a group id."""
        return "group_id" in self.columns


OWNER = ("transactional_id", "transaction_state", "abort_timestamp", "is_marker_lost")
"""The columns of `show pending` that `open_transactions` adds to `pending_offsets`."""
MEMBER = "member"
"""A column of text output only: the label of the member."""
TOPIC_PARTITION = ("group_id", "topic", "partition")
_LOG_ORDER = ("log_partition", "record_offset")

VIEWS = {
    "groups": View(
        "groups",
        (
            "group_id",
            "group_type",
            "state",
            "protocol_type",
            "protocol",
            "generation",
            "group_epoch",
            "member_count",
            "log_partition",
            "replay_warning",
        ),
        ("group_id", "log_partition"),
    ),
    "members": View(
        "group_members",
        (
            "group_id",
            MEMBER,
            "member_id",
            "group_instance_id",
            "client_id",
            "client_host",
            "member_epoch",
            "subscribed_topics",
            "assignment",
            "tasks",
        ),
        ("group_id", "member_id"),
    ),
    "offsets": View(
        "group_offsets",
        (
            *TOPIC_PARTITION,
            "committed_offset",
            "leader_epoch",
            "metadata",
            "commit_timestamp",
            "expire_timestamp",
            "record_offset",
        ),
        TOPIC_PARTITION,
    ),
    "pending": View(
        "pending_offsets",
        (
            *TOPIC_PARTITION,
            "producer_id",
            "producer_epoch",
            "client_id",
            "client_host",
            "committed_offset",
            "leader_epoch",
            "metadata",
            "commit_timestamp",
            "record_offset",
            *OWNER,
        ),
        (*TOPIC_PARTITION, "producer_id"),
    ),
    "transactions": View(
        "transactions",
        (
            "transactional_id",
            "state",
            "producer_id",
            "producer_epoch",
            "timeout_ms",
            "start_timestamp",
            "last_update_timestamp",
            "abort_timestamp",
            "topic_partitions",
            "log_partition",
        ),
        ("transactional_id", "log_partition"),
    ),
    "transaction-events": View(
        "transaction_events",
        (
            *_LOG_ORDER,
            "record_timestamp",
            "transactional_id",
            "event",
            "state",
            "producer_id",
            "producer_epoch",
            "duration_ms",
            "outcome",
        ),
        ("record_timestamp", *_LOG_ORDER),
    ),
    "share-partitions": View(
        "share_partitions",
        (
            "group_id",
            "topic",
            "topic_id",
            "partition",
            "start_offset",
            "state_epoch",
            "leader_epoch",
            "delivery_complete_count",
            "state_batches",
            "log_partition",
        ),
        ("group_id", "topic_id", "partition"),
    ),
    "topic-progress": View(
        "topic_progress",
        (
            "log_topic",
            "log_partition",
            "state",
            "next_offset",
            "high_watermark",
            "records_read",
            "records_applied",
            "records_ignored",
            "records_quarantined",
            "records_unaccounted",
            "updated_at",
        ),
        ("log_topic", "log_partition"),
    ),
    "progress": View(
        "load_progress",
        (
            "log_partition",
            "state",
            "next_offset",
            "high_watermark",
            "records_read",
            "records_applied",
            "records_superseded",
            "records_ignored",
            "records_quarantined",
            "records_pending",
            "records_unaccounted",
            "batch_id",
            "clock_skew_ms",
            "updated_at",
        ),
        ("log_partition",),
    ),
    "events": View(
        "group_events",
        (
            "record_timestamp",
            "event",
            *TOPIC_PARTITION,
            "offset_before",
            "offset_after",
            "epoch_before",
            "epoch_after",
            "member_count",
            MEMBER,
            "client_host",
            "assignment_before",
            "assignment_after",
            "duration_ms",
        ),
        ("record_timestamp", *_LOG_ORDER, "event_number"),
    ),
    "alerts": View(
        "alerts",
        (
            "state",
            "severity",
            "rule",
            *TOPIC_PARTITION,
            "fired_at",
            "resolved_at",
            "value",
            "reason",
            "muted_by",
        ),
        ("rule", *TOPIC_PARTITION),
    ),
    "quarantine": View(
        "quarantine",
        ("log_topic", *_LOG_ORDER, "record_timestamp", "record_type", "reason", "raw_key"),
        ("log_topic", *_LOG_ORDER),
    ),
    "records": View(
        "coordinator_records",
        (
            "group_id",
            "record_type",
            "record_type_name",
            "record_key",
            "is_tombstone",
            "value_version",
            "value",
            "log_partition",
            "record_offset",
        ),
        ("group_id", "record_type", "record_key"),
    ),
    "history": View(
        "offset_commits",
        (
            *_LOG_ORDER,
            "record_timestamp",
            *TOPIC_PARTITION,
            "committed_offset",
            "is_tombstone",
            "outcome",
            "metadata",
        ),
        _LOG_ORDER,
    ),
    "group-records": View(
        "group_records",
        (
            *_LOG_ORDER,
            "record_timestamp",
            "group_id",
            "record_type",
            "raw_key",
            "raw_value",
            "outcome",
        ),
        _LOG_ORDER,
    ),
}
