"""History in memory answers as the tables do."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow.parquet import filters_to_expression

from streaming.tables.history import KeptRows
from streaming.tables.reader import TableReader
from streaming.tables.schemas import GROUPS, LOG_OFFSETS, OFFSET_COMMITS
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

NOW = datetime(2026, 11, 24, 0, 10, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def reader(tmp_path: Path) -> TableReader:
    tables = create_tables(tmp_path)
    times = [NOW - number * MINUTE for number in range(120)]
    samples = [
        {"topic": topic, "partition": 0, "sampled_at": at, "log_end_offset": number}
        for number, at in enumerate(times)
        for topic in (("t", "u", "v") if number % 2 else ("v",))
    ]
    write_rows(tables, "log_offsets", samples)
    commits = [
        {"group_id": group_id, "topic": "t", "partition": 0}
        | {"record_offset": number, "commit_timestamp": at}
        for number, at in enumerate(times)
        for group_id in ("g", "h")
    ]
    apply_micro_batch(tables, progress=[{"next_offset": 120}], offset_commits=commits)
    return TableReader(tables)


def during(since: datetime, until: datetime, *more: Any) -> list[tuple[str, str, Any]]:
    return [
        *(("day", ">=", since.date()), ("day", "<=", until.date())),
        *(("sampled_at", ">=", since), ("sampled_at", "<=", until), *more),
    ]


def kept_of(reader: TableReader, **given: Any) -> tuple[KeptRows, list[str]]:
    reads: list[str] = []

    def read(name: str, columns: Any, conditions: Any) -> pa.Table:
        reads.append(name)
        return reader.read(name, columns, conditions)

    return KeptRows(read, NOW - 30 * MINUTE, NOW, **given), reads


def rows(table: pa.Table, columns: list[str]) -> list[Any]:
    return sorted(map(repr, table.select(columns).to_pylist()))


def rows_of_both(
    kept: KeptRows, reader: TableReader, columns: list[str], conditions: Any
) -> tuple[list[Any], list[Any]]:
    """The rows that are kept and fulfil the conditions, and those of the tables."""
    of_kept = kept.rows(LOG_OFFSETS, columns, conditions)
    assert of_kept is not None
    of_kept = of_kept.filter(filters_to_expression(conditions))
    return rows(of_kept, columns), rows(reader.read("log_offsets", columns, conditions), columns)


COLUMNS = ["topic", "sampled_at", "log_end_offset"]


def test_samples_of_every_moment_are_those_of_the_tables_and_read_once(reader: TableReader) -> None:
    kept, reads = kept_of(reader)
    for ago in range(0, 30, 3):
        until = NOW - ago * MINUTE
        ours, theirs = rows_of_both(kept, reader, COLUMNS, during(until - 10 * MINUTE, until))
        assert ours == theirs != []
    assert reads == ["log_offsets"]


def test_old_samples_are_kept_for_the_topics_that_need_them(reader: TableReader) -> None:
    kept, reads = kept_of(reader)
    old = NOW - 100 * MINUTE
    for topics in (["t"], ["t"], ["t", "u"], ["u"]):
        ours, theirs = rows_of_both(
            kept, reader, COLUMNS, during(old, NOW, ("topic", "in", topics))
        )
        assert ours == theirs != []
    assert reads == ["log_offsets"] * 2
    # Old samples of all topics may be too many.
    assert kept.rows(LOG_OFFSETS, COLUMNS, during(old, NOW)) is None


def test_only_commits_of_the_groups_are_kept_and_of_other_topics_the_times_of_samples(
    reader: TableReader,
) -> None:
    kept, _ = kept_of(reader, group_ids=["g"], topics=["t"])
    conditions = during(NOW - 10 * MINUTE, NOW)
    samples = kept.rows(LOG_OFFSETS, COLUMNS, conditions)
    assert samples is not None
    assert set(samples["topic"].to_pylist()) == {"t", ""}
    all_samples = reader.read("log_offsets", ["sampled_at"], conditions)
    assert set(samples["sampled_at"].to_pylist()) == set(all_samples["sampled_at"].to_pylist())
    conditions = [("record_timestamp", ">=", NOW - 5 * MINUTE), ("outcome", "=", "committed")]
    commits = kept.rows(OFFSET_COMMITS, ["group_id"], conditions)
    assert commits is not None
    assert commits["group_id"].to_pylist() == ["g"] * 6


def test_other_tables_and_reads_without_a_time_are_not_kept(reader: TableReader) -> None:
    kept, _ = kept_of(reader)
    assert kept.rows(GROUPS, ["group_id"], [("record_timestamp", ">=", NOW)]) is None
    assert kept.rows(LOG_OFFSETS, ["topic"], [("topic", "=", "t")]) is None


def test_rows_from_before_the_span_are_all_there_or_are_not_kept(reader: TableReader) -> None:
    kept, _ = kept_of(reader, group_ids=["g"], topics={"t"})
    early = NOW - 100 * MINUTE
    samples = kept.rows(LOG_OFFSETS, COLUMNS, during(early, NOW))
    assert samples is not None
    of_topic = during(early, NOW, ("topic", "=", "t"))
    mine = samples.filter(pc.equal(samples["topic"], "t"))
    assert rows(mine, COLUMNS) == rows(reader.read("log_offsets", COLUMNS, of_topic), COLUMNS)
    commits: list[tuple[str, str, Any]] = [("record_timestamp", ">=", early)]
    assert kept.rows(OFFSET_COMMITS, ["topic"], commits) is None
