"""A planned offset: the committed offset that a group gets in one partition, and what that means.

Kafka's tool never sets an offset outside the log: it raises one below the log start, and lowers one
above the log end. A plan does the same, so it announces the offset that the tool commits.
"""

from __future__ import annotations

from dataclasses import dataclass

from coordinator_state.insight.group_status import count_text
from coordinator_state.replay.offsets import OffsetKey


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The log start offset and the log end offset of a partition."""

    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOffset:
    """One partition of a plan.

    Attributes:
        from_offset: the committed offset now, None without one.
        wanted_offset: the offset that was asked for, None if it is unknown.
        to_offset: the offset to commit; None if the partition is left as it is.
        records_replayed: the records between the two that the group reads again.
        records_skipped: the records between the two that the group never reads.
        records_deleted: the records from the wanted offset on that the log has deleted.
        note: what a person should know about this partition.

    Records are counted by offsets, so transaction markers and compacted records count, too. The
    counts are None if `from_offset`, `to_offset` or the bounds of the log are unknown.
    """

    topic: str
    partition: int
    from_offset: int | None
    wanted_offset: int | None = None
    to_offset: int | None = None
    records_replayed: int | None = None
    records_skipped: int | None = None
    records_deleted: int | None = None
    note: str = ""


def left_as_it_is(key: OffsetKey, from_offset: int | None, reason: str) -> PlannedOffset:
    """A partition that the plan does not change, with the reason."""
    return PlannedOffset(
        topic=key.topic, partition=key.partition, from_offset=from_offset, note=reason
    )


def planned_offset(
    key: OffsetKey,
    *,
    from_offset: int | None,
    wanted_offset: int,
    log: LogBounds | None,
    note: str = "",
) -> PlannedOffset:
    """Plan a partition whose wanted offset is known; `log` is None if its bounds are unknown.

    >>> key = OffsetKey("payments", "orders", 0)
    >>> found = planned_offset(key, from_offset=90, wanted_offset=10, log=LogBounds(30, 100))
    >>> found.to_offset, found.records_replayed, found.records_deleted, found.note
    (30, 60, 20, 'the log begins at 30: 20 records are deleted')
    """
    to_offset, notes = wanted_offset, [note] if note else []
    deleted = None
    if log is None:
        notes.append("log start and log end are unknown")
    else:
        to_offset = min(max(wanted_offset, log.log_start_offset), log.log_end_offset)
        deleted = max(0, to_offset - wanted_offset)
        if deleted:
            begins = f"the log begins at {log.log_start_offset:,}"
            verb = "is" if deleted == 1 else "are"
            notes.append(f"{begins}: {count_text(deleted, 'record')} {verb} deleted")
        elif to_offset < wanted_offset:
            notes.append(f"lowered from {wanted_offset:,}: the log ends at {to_offset:,}")
    if from_offset is None:
        notes.append("no committed offset now")
    replayed, skipped = _between(from_offset, to_offset, log)
    return PlannedOffset(
        topic=key.topic,
        partition=key.partition,
        from_offset=from_offset,
        wanted_offset=wanted_offset,
        to_offset=to_offset,
        records_replayed=replayed,
        records_skipped=skipped,
        records_deleted=deleted,
        note="; ".join(notes),
    )


def _between(
    from_offset: int | None, to_offset: int, log: LogBounds | None
) -> tuple[int | None, int | None]:
    """The records replayed and skipped; deleted records are neither."""
    if from_offset is None:
        return None, None
    if log is not None:
        from_offset = min(max(from_offset, log.log_start_offset), log.log_end_offset)
    return max(0, from_offset - to_offset), max(0, to_offset - from_offset)
