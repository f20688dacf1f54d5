"""Tables of groups in several states, which tests of status and of alerts share."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from tests.support.tables.sample_rows import history_of, offset_row, sample
from tests.support.tables.tables_folder import Row, apply_micro_batch, create_tables, write_rows

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def at(seconds_ago: float) -> datetime:
    return NOW - timedelta(seconds=seconds_ago)


def offset(group_id: str, committed_offset: int, seconds_ago: float, partition: int = 0) -> Row:
    return offset_row(group_id, committed_offset, at(seconds_ago), partition=partition)


VERSION = 1
"""The version of `load_progress` in which they are, written at `NOW`."""


def create_status_tables(in_folder: Path) -> str:
    """Groups in several states as of `NOW`: a copy of tables that are built once."""
    return str(copytree(_built().name, in_folder, dirs_exist_ok=True))


@cache
def _built() -> TemporaryDirectory[str]:
    temporary = TemporaryDirectory()
    folder = create_tables(Path(temporary.name))
    commits = [offset("back", 90, 60), offset("back", 5, 30), offset("back", 6, 10)]
    apply_micro_batch(
        folder,
        progress=[{"updated_at": NOW}],
        groups=[
            *(
                {"group_id": group, "member_count": 1, "state": "Stable"}
                for group in ("back", "loop", "new")
            ),
            *({"group_id": group} for group in ("idle", "nothing", "old")),
        ],
        group_offsets=[
            commits[-1],
            offset("idle", 100, 400),
            offset("loop", 100, 5),
            # Both partitions are behind; one is worse.
            offset("old", 99, 8 * 86_400),
            offset("old", 3, 400, partition=1),
        ],
        offset_commits=history_of(commits),
        group_events=[
            {
                **{"group_id": "back", "event": "offset_rewind", "record_offset": 1},
                **{"record_timestamp": at(30)},
                **{"topic": "t", "partition": 0, "offset_before": 90, "offset_after": 5},
            },
            *(
                {"group_id": "loop", "event": "rebalance", "record_offset": number}
                | {"record_timestamp": at(10 * number), "epoch_after": 40 - number}
                | {"group_type": "classic"}
                for number in range(8)
            ),
        ],
    )
    write_rows(
        folder,
        "log_offsets",
        [
            sample(at(100), 5),
            sample(at(1), 100),
            sample(at(100), 5, partition=1),
            sample(at(1), 100, partition=1, log_start_offset=4),
            sample(at(100), 0, OFFSETS_TOPIC),
            sample(at(1), 0, OFFSETS_TOPIC),
        ],
    )
    return temporary
