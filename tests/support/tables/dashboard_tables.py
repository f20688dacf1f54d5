"""Tables as a live cluster writes them up to now, with names that nobody means well by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path

from tests.support.tables.sample_rows import history_of, member_row, offset_row, sample
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

HOSTILE = '<img src=x onerror="alert(1)">\'&?#/%2e\x1b[31m\u202e'
REWOUND = "payments"
MEMBER = f"{HOSTILE}-1"
GROUPS = 120


@dataclass(frozen=True)
class DashboardTables:
    """`before` and `after` are moments before and after `payments` was set back."""

    folder: str
    before: datetime
    after: datetime


def create_dashboard_tables(in_folder: Path) -> DashboardTables:
    """Two micro-batches: all is well, and then a group is set back by somebody."""
    folder = create_tables(in_folder)
    set_back(folder, committed=990)
    before = datetime.now(timezone.utc)
    set_back(folder, committed=100)
    return DashboardTables(folder, before, datetime.now(timezone.utc))


def set_back(folder: str, committed: int) -> None:
    """A micro-batch in which `payments` commits an offset; 990 is where it was."""
    now = datetime.now(timezone.utc)
    is_rewound = committed < 990
    client = {"client_id": HOSTILE, "client_host": "/10.0.0.1"}
    commits = [(20, 980), (10, 990), *([(0, committed)] if is_rewound else [])]
    names = [REWOUND, HOSTILE, *(f"group-{number:03}" for number in range(GROUPS))]
    apply_micro_batch(
        folder,
        progress=[
            {"updated_at": now, "next_offset": 40, "high_watermark": 40, "records_read": 40}
            | {"records_applied": 29, "records_superseded": 10, "records_quarantined": 1}
            | {"batch_id": int(is_rewound)}
        ],
        groups=[
            {"group_id": name, "state": "Stable", "member_count": 1, "generation": 3}
            for name in names
        ],
        group_members=[
            member_row(name, MEMBER, HOSTILE, (0, 1), subscribed_topics=[HOSTILE], **client)
            for name in (REWOUND, HOSTILE)
        ],
        group_offsets=[
            _offset(name, committed if name == REWOUND else 995, now, partition)
            for name in names
            for partition in (0, 1)
        ],
        pending_offsets=[
            _offset(HOSTILE, 999, now - timedelta(hours=1))
            | {"record_timestamp": now - timedelta(hours=1)}
            | client
        ],
        offset_commits=history_of(
            _offset(REWOUND, offset, now - timedelta(seconds=ago)) for ago, offset in commits
        ),
        group_events=[
            {
                **{"group_id": REWOUND, "event": "offset_rewind", "record_offset": 39},
                "record_timestamp": now,
                **{"topic": HOSTILE, "partition": 0, "offset_before": 990, "offset_after": 100},
                **{"member_id": MEMBER, **client},
            }
        ]
        if is_rewound
        else [],
        quarantine=[
            {"log_partition": 0, "record_offset": 7, "record_timestamp": now, "reason": HOSTILE}
        ],
    )
    samples = [
        sample(now - timedelta(seconds=ago), *log)
        for ago, grown in ((300, 0), (120, 400), (60, 900), (30, 980), (0, 1_000))
        for log in ((grown, HOSTILE, 0), (grown, HOSTILE, 1), (40, "__consumer_offsets", 0))
    ]
    write_rows(folder, "log_offsets", samples)


def _offset(group_id: str, committed_offset: int, moment: datetime, partition: int = 0) -> Row:
    return offset_row(group_id, committed_offset, moment, HOSTILE, partition, metadata=HOSTILE)
