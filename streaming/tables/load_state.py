"""The meaning of the rows of `load_progress`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from streaming.tables.schemas import STATE_CURRENT, STATE_WAITING

LOAD_STATE_COLUMNS = [
    *("log_partition", "state", "next_offset", "high_watermark"),
    *("reload_reason", "reloaded_at"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadState:
    """The progress of one log partition.

    During a reload its rows are those before the reload.
    """

    log_partition: int
    state: str
    next_offset: int
    high_watermark: int
    is_reloading: bool = False


def load_states(progress: pa.Table) -> dict[int, LoadState]:
    """The progress of each log partition, from rows of `load_progress`."""
    return {
        row["log_partition"]: LoadState(
            log_partition=row["log_partition"],
            state=row["state"],
            next_offset=row["next_offset"],
            high_watermark=row["high_watermark"],
            is_reloading=is_reloading(row["reload_reason"], row["reloaded_at"]),
        )
        for row in progress.select(LOAD_STATE_COLUMNS).to_pylist()
    }


def current_count(states: Mapping[int, LoadState]) -> int:
    """The number of log partitions that were read to their end since the start of `run`."""
    return sum(load.state == STATE_CURRENT for load in states.values())


def loading_notice(states: Mapping[int, LoadState], log_partitions: int) -> str | None:
    """A line for people if log partitions are not current; None if all are.

    Args:
        states: the progress of each log partition whose load has begun.
        log_partitions: the number of log partitions of `__consumer_offsets`.
    """
    current = current_count(states)
    if current >= log_partitions:
        return None
    waiting = sum(load.state == STATE_WAITING for load in states.values())
    others = f"rows of the other {log_partitions - current} are missing or out of date"
    if waiting:
        others += f" ({waiting} without a leader)"
    return (
        f"loading: {current} of {log_partitions} log partitions are current; {others} "
        "(coordinator-state show progress)"
    )


def next_offsets(progress: pa.Table) -> dict[int, int]:
    """The next offset of each log partition, from rows of `load_progress`."""
    columns = [progress[name].to_pylist() for name in ("log_partition", "next_offset")]
    return dict(zip(*columns, strict=True))


def begun(progress: pa.Table) -> set[int]:
    """The log partitions whose load has begun, from rows of `load_progress`.

    The load of a log partition that has been leaderless since the first start has not begun.
    """
    columns = ["log_partition", "next_offset", "current_at"]
    return {
        row["log_partition"]
        for row in progress.select(columns).to_pylist()
        if is_begun(row["next_offset"], row["current_at"])
    }


def is_begun(next_offset: int, current_at: object) -> bool:
    """Whether the load of a log partition has begun, by its row of `load_progress`."""
    return next_offset > 0 or current_at is not None


def is_reloading(reload_reason: str | None, reloaded_at: object) -> bool:
    """Whether a log partition is being reloaded, by its row of `load_progress`."""
    return reload_reason is not None and reloaded_at is None


def reloaded_at(progress: pa.Table) -> dict[int, datetime]:
    """The end of the last reload of each log partition that was reloaded."""
    columns = (progress[name].to_pylist() for name in ("log_partition", "reloaded_at"))
    return {p: at for p, at in zip(*columns, strict=True) if at is not None}


def reloaded_after(progress: pa.Table, later: pa.Table) -> dict[int, datetime]:
    """The log partitions that were reloaded after a base, or dropped, and when at the latest."""
    before = reloaded_at(progress)
    reloaded = {p: at for p, at in reloaded_at(later).items() if at != before.get(p)}
    written_at = pc.max(later["updated_at"]).as_py()
    dropped = next_offsets(progress).keys() - next_offsets(later).keys()
    return {**reloaded, **dict.fromkeys(dropped, written_at)}


def pinned_versions(progress: pa.Table) -> dict[str, int]:
    """The Delta version of each table in a snapshot, from the rows of its `load_progress`.

    A table that no row names is empty. Each row has the versions of the last micro-batch that wrote
    the row, and versions only grow.
    """
    versions: dict[str, int] = {}
    for pairs in progress["table_versions"].to_pylist():
        for name, version in pairs or ():
            versions[name] = max(version, versions.get(name, version))
    return versions
