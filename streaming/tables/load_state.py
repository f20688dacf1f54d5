"""The meaning of the rows of `load_progress`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

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


def is_reloading(reload_reason: str | None, reloaded_at: object) -> bool:
    """Whether a log partition is being reloaded, by its row of `load_progress`."""
    return reload_reason is not None and reloaded_at is None


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
