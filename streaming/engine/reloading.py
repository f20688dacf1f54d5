"""Log partitions that are loaded again: their rows wait until the log is read to its end.

Until then the tables keep what they had, and `load_progress` says `loading`. What was read is lost
when the process ends, and the load begins anew with the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.log.held_rows import HeldRows
from streaming.tables.load_progress import LoadProgress

logger = logging.getLogger(__name__)

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What is to be applied of a micro-batch.

    `rows` are without the `progress` rows, which are `reports`. The rows of the log partitions of
    `replaced` are all that their log has; the value is the record offset from which on the tables
    of history lack it.
    """

    rows: pa.Table
    reports: list[Report]
    replaced: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Held:
    """What was read of a log partition so far."""

    rows: HeldRows
    reports: list[Report] = field(default_factory=list)

    def add(self, rows: pa.Table, report: Report) -> None:
        """Hold the rows of a micro-batch."""
        for batch in rows.to_batches():
            self.rows.add(batch)
        self.reports.append(report)

    def report(self) -> Report:
        """One report of all that was read."""
        reports = self.reports
        summed = ("records_read", "records_superseded", "bytes_read")
        found = {
            **reports[-1],
            "from_offset": reports[0]["from_offset"],
            **{name: sum(report[name] for report in reports) for name in summed},
        }
        found["records_superseded"] += self.rows.records_superseded
        return found


class Reloading:
    """Holds rows back; `compacts` where the tables need not tell of every commit."""

    def __init__(self, *, compacts: bool) -> None:
        self._compacts = compacts
        self._held: dict[int, _Held] = {}

    def take(self, rows: pa.Table, reports: Iterable[Report], progress: LoadProgress) -> Taken:
        """Hold what is being loaded again, and give what has been read to the end."""
        reports = list(reports)
        under_way = {p for p, row in progress.rows.items() if row.is_reloading}
        held_now = [report for report in reports if report["log_partition"] in under_way]
        if not held_now:
            return Taken(rows=rows, reports=reports)
        is_held = pc.is_in(rows["log_partition"], pa.array(under_way, pa.int32()))
        theirs = rows.filter(is_held)
        applied = [rows.filter(pc.invert(is_held))]
        reports = [report for report in reports if report["log_partition"] not in under_way]
        replaced: dict[int, int] = {}
        for report in held_now:
            log_partition = report["log_partition"]
            row = progress.rows[log_partition]
            row.high_watermark = report["high_watermark"]
            held = self._held.setdefault(log_partition, _Held(HeldRows(self._compacts)))
            held.add(theirs.filter(pc.equal(theirs["log_partition"], log_partition)), report)
            if report["record_offset"] < report["high_watermark"]:
                logger.info(
                    "log partition %(log_partition)s: loaded again up to record offset "
                    "%(record_offset)s of %(high_watermark)s",
                    {
                        "log_partition": log_partition,
                        "record_offset": report["record_offset"],
                        "high_watermark": report["high_watermark"],
                    },
                )
                continue
            del self._held[log_partition]
            applied.append(pa.Table.from_batches(held.rows.release(), rows.schema))
            reports.append(held.report())
            replaced[log_partition] = row.next_offset
        return Taken(rows=pa.concat_tables(applied), reports=reports, replaced=replaced)
