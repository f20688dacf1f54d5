"""Reloads under the engine `spark`: their staged rows are kept until the log is read to its end.

Until then the tables keep the old rows, and `load_progress` says `loading`. The staged rows are
discarded when the process stops; the next run then restarts the reload.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING

from streaming.engine.progress import Report, joined
from streaming.engine.spark.staging import StagedRows, StagingFolder
from streaming.tables.load_progress import LoadProgress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RECORDS_OF_A_BUCKET = 50_000
_GROUPS_OF_A_BUCKET = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadyFrame:
    """The rows of a micro-batch that can be applied now (`KEYED_SCHEMA`).

    `touched` are the groups that they are about, with duplicates; there are at most
    `touched_at_most`. `replaced` maps each log partition whose reload is complete to the first
    record offset that the tables of history lack; `rows` then has all rows of its log. `reports`
    has one report for each of the log partitions.
    """

    rows: DataFrame
    touched: DataFrame
    touched_at_most: int
    reports: Sequence[Report]
    replaced: Mapping[int, int]

    @property
    def log_partitions(self) -> list[int]:
        """The log partitions of the rows."""
        return [report["log_partition"] for report in self.reports]

    @property
    def buckets(self) -> int:
        """The number of buckets of log partitions; the log partitions of one are planned together.

        A plan has a fixed cost of 10 to 20 ms, more than that of the rows of a small log partition.
        """
        records = sum(report["records_read"] for report in self.reports)
        wanted = 1 + records // _RECORDS_OF_A_BUCKET + self.touched_at_most // _GROUPS_OF_A_BUCKET
        return min(wanted, max(len(self.reports), 1))


@dataclass(slots=True)
class Reloads:
    """Keeps the folders with staged rows of unfinished reloads."""

    staging: StagingFolder
    _kept: dict[str, StagedRows] = field(default_factory=dict)
    _reports: defaultdict[int, list[Report]] = field(default_factory=lambda: defaultdict(list))

    def ready_rows(
        self, session: SparkSession, folder: str, staged: StagedRows, progress: LoadProgress
    ) -> ReadyFrame:
        """Hold the rows of unfinished reloads back; return the others.

        Sets the high watermarks of reloading log partitions in `progress`.

        Args:
            session: the session of the micro-batch.
            folder: the folder of the rows.
            staged: the rows of the micro-batch (`KEYED_SCHEMA`).
            progress: the progress before the micro-batch.

        Raises:
            ConfigurationError: the micro-batch starts after the next offset of a log partition.
        """
        from pyspark.sql import functions as f

        keyed = _of_offsets(staged.read(session))
        surveyed = keyed.groupBy("log_partition").agg(
            f.first("report", ignorenulls=True).alias("report"),
            f.sum(f.size("groups")).alias("groups"),
        )
        surveyed_rows = surveyed.toArrow().to_pylist()
        reports = {row["log_partition"]: row["report"] for row in surveyed_rows}
        progress.require_no_gap(reports.values())
        under_way = {p for p in reports if p in progress.rows and progress.rows[p].is_reloading}
        complete = {p for p in under_way if self._is_complete(p, reports[p], progress)}
        held = under_way - complete
        rows = keyed.where(~f.col("log_partition").isin(list(held))) if held else keyed
        if earlier := [p for p in complete if len(self._reports[p]) > 1]:
            is_earlier = f.col("log_partition").isin(earlier)
            frames = [
                _of_offsets(kept.read(session)).where(is_earlier) for kept in self._kept.values()
            ]
            rows = reduce(lambda left, right: left.unionByName(right), frames, rows)
        if held:
            self._kept[folder] = staged
        return ReadyFrame(
            rows=rows,
            touched=rows.select("log_partition", f.explode("groups").alias("group_id")),
            # No state is read of the log partitions of a reload.
            touched_at_most=sum(row["groups"] for row in surveyed_rows),
            reports=[
                joined(self._reports.pop(p)) if p in complete else report
                for p, report in reports.items()
                if p not in held
            ],
            replaced={p: progress.rows[p].next_offset for p in complete},
        )

    def needs(self, folder: str) -> bool:
        """Whether a folder has rows of an unfinished reload."""
        return folder in self._kept

    def delete_unneeded(self) -> None:
        """Delete the folders once no reload is under way."""
        if not self._reports:
            for folder in self._kept:
                self.staging.delete(folder)
            self._kept.clear()

    def _is_complete(self, log_partition: int, report: Report, progress: LoadProgress) -> bool:
        """Add a report of a reload; return whether the log is read to its end."""
        self._reports[log_partition].append(report)
        progress.rows[log_partition].high_watermark = report["high_watermark"]
        return bool(report["record_offset"] >= report["high_watermark"])


def _of_offsets(keyed: DataFrame) -> DataFrame:
    """The rows of `__consumer_offsets`."""
    return keyed.where("log_topic IS NULL")
