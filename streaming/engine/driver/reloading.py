"""Reload of log partitions: their rows are held in memory until the log is read to its end.

Until then the tables keep the old rows, and `load_progress` says `loading`. The held rows are lost
when the process stops; the next run then restarts the reload.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from coordinator_state.apply.columns import is_below
from coordinator_state.log.commit_sampling import CommitSampling, HistoryResolution
from coordinator_state.log.held_rows import HeldRows
from coordinator_state.log.log_rows import ROW_KIND_PROGRESS
from streaming.engine.progress import Report, joined
from streaming.tables.load_progress import LoadProgress

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyRows:
    """The rows of a micro-batch that can be applied now.

    `rows` may include `progress` rows, which are also in `reports`. `replaced` maps each log
    partition whose reload is complete to the first record offset that the tables of history lack;
    `rows` then has all rows of its log.
    """

    rows: pa.Table
    reports: list[Report]
    replaced: dict[int, int] = field(default_factory=dict)

    @property
    def from_offsets(self) -> dict[int, int]:
        """The first record offset that was read of each log partition."""
        return {report["log_partition"]: report["from_offset"] for report in self.reports}


@dataclass(slots=True)
class _Held:
    """The rows and reports of a log partition that the reload has read so far."""

    rows: HeldRows
    reports: list[Report] = field(default_factory=list)

    def add(self, rows: pa.Table, report: Report) -> None:
        """Hold the rows of a micro-batch."""
        for batch in rows.to_batches():
            self.rows.add(batch)
        self.reports.append(report)

    def report(self) -> Report:
        """All reports of the reload as one."""
        report = dict(joined(self.reports))
        report["records_superseded"] += self.rows.records_superseded
        return report


class Reloading:
    """Holds the rows of reloads.

    With a resolution it drops commits that a later one supersedes.
    """

    def __init__(self, resolution: HistoryResolution | None) -> None:
        self._resolution = resolution
        self._held: dict[int, _Held] = {}

    def ready_rows(self, rows: pa.Table, progress: LoadProgress) -> ReadyRows:
        """Hold the rows of unfinished reloads; return the other rows that are not applied yet.

        Sets the high watermarks of reloading log partitions in `progress`.

        Raises:
            ConfigurationError: the micro-batch starts after the next offset of a log partition.
        """
        reports = rows.filter(pc.equal(rows["row_kind"], ROW_KIND_PROGRESS)).to_pylist()
        progress.require_no_gap(reports)
        ready = self._hold(rows, reports, progress)
        is_applied = is_below(ready.rows, "record_offset", progress.applied_below)
        if not pc.any(is_applied).as_py():
            return ready
        return replace(ready, rows=ready.rows.filter(pc.invert(is_applied)))

    def _sampling(self) -> CommitSampling | None:
        if self._resolution is None:
            return None
        return CommitSampling.at(time.time_ns() // 1_000_000, self._resolution)

    def _hold(self, rows: pa.Table, reports: list[Report], progress: LoadProgress) -> ReadyRows:
        under_way = {p for p, row in progress.rows.items() if row.is_reloading}
        held_now = [report for report in reports if report["log_partition"] in under_way]
        if not held_now:
            return ReadyRows(rows=rows, reports=reports)
        rows = rows.filter(pc.not_equal(rows["row_kind"], ROW_KIND_PROGRESS))
        is_held = pc.is_in(rows["log_partition"], pa.array(under_way, pa.int32()))
        held_rows = rows.filter(is_held)
        released = [rows.filter(pc.invert(is_held))]
        reports = [report for report in reports if report["log_partition"] not in under_way]
        replaced: dict[int, int] = {}
        for report in held_now:
            log_partition = report["log_partition"]
            row = progress.rows[log_partition]
            row.high_watermark = report["high_watermark"]
            held = self._held.setdefault(log_partition, _Held(HeldRows(self._sampling())))
            own_rows = held_rows.filter(pc.equal(held_rows["log_partition"], log_partition))
            held.add(own_rows, report)
            if report["record_offset"] < report["high_watermark"]:
                logger.info(
                    "log partition %(log_partition)s: reload has read up to record offset "
                    "%(record_offset)s of %(high_watermark)s",
                    {
                        "log_partition": log_partition,
                        "record_offset": report["record_offset"],
                        "high_watermark": report["high_watermark"],
                    },
                )
                continue
            del self._held[log_partition]
            released.append(pa.Table.from_batches(held.rows.release(), rows.schema))
            reports.append(held.report())
            replaced[log_partition] = row.next_offset
        return ReadyRows(rows=pa.concat_tables(released), reports=reports, replaced=replaced)
