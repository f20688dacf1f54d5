"""MERGE into a large table: the files that it rewrites, and what others read meanwhile."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from coordinator_state.apply.columns import columns_of
from coordinator_state.apply.merge import merged
from streaming.errors import WriterFenced
from streaming.tables import delta, maintenance, replacing
from streaming.tables import writer as writer_module
from streaming.tables.creation import create_tables
from streaming.tables.schemas import GROUP_OFFSETS
from streaming.tables.writer import Writer
from streaming.tables.writer_epoch import WriterEpoch

KEYS, GROUPS = 40_000, 1_000
NOW = datetime(2026, 11, 22, tzinfo=timezone.utc)
HUNDREDTH = np.arange(0, GROUPS, 100)


def rows_of(groups: npt.NDArray[np.int64], step: int) -> pa.Table:
    """Commits of all keys of some groups; the rows of a group are not side by side."""
    keys = (groups[None, :] + GROUPS * np.arange(KEYS // GROUPS)[:, None]).ravel()
    random = np.random.default_rng(step)
    columns = {
        "group_id": [f"group-{key % GROUPS * 7919 % 1000:04d}" for key in keys.tolist()],
        "topic": [f"topic-{key // GROUPS % 10}" for key in keys.tolist()],
        "partition": keys // GROUPS // 10,
        "log_partition": keys % GROUPS % 50,
        "committed_offset": random.integers(0, 1 << 40, len(keys)),
        "metadata": [""] * len(keys),
        "commit_timestamp": [NOW + timedelta(seconds=step)] * len(keys),
        "record_offset": 1_000_000 * step + np.arange(len(keys)),
    }
    schema = pa.schema([GROUP_OFFSETS.schema.field(name) for name in columns])
    return columns_of(pa.table(columns).cast(schema), GROUP_OFFSETS.schema)


@dataclass
class LargeTable:
    """`group_offsets` as a table that is large by a smaller limit."""

    tables: str
    expected: pa.Table
    step: int = 0
    writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.path = GROUP_OFFSETS.path(self.tables)
        self.writer = Writer.of(WriterEpoch.take(self.tables, "test", GROUP_OFFSETS))

    def copy(self, folder: Path) -> LargeTable:
        tables = str(shutil.copytree(self.tables, folder / "tables"))
        return LargeTable(tables, self.expected, self.step)

    def merge(self, groups: npt.NDArray[np.int64]) -> float:
        """Let all keys of some groups commit; return the share of the table that was written."""
        self.step += 1
        source = rows_of(groups, self.step)
        version = self.writer.merge(GROUP_OFFSETS, source, guard="record_offset")
        self.expected = merged(
            self.expected, source, key=GROUP_OFFSETS.key, guard="record_offset", deletes=None
        )
        entry = Path(self.path, "_delta_log", f"{version:020}.json").read_text()
        actions = [json.loads(line) for line in entry.splitlines()]
        written = sum(action["add"]["size"] for action in actions if "add" in action)
        return float(written / sum(file["size_bytes"] for file in self.files()))

    def files(self) -> list[dict[str, Any]]:
        actions = DeltaTable(self.path).get_add_actions(flatten=True)
        files: list[dict[str, Any]] = pa.table(actions).to_pylist()
        return files

    def check(self) -> None:
        """The rows are those of a MERGE into the whole table."""
        order = [(name, "ascending") for name in GROUP_OFFSETS.key]
        rows = delta.read(self.tables, GROUP_OFFSETS).sort_by(order)
        assert rows.equals(self.expected.sort_by(order))


@pytest.fixture(scope="module", autouse=True)
def _small_limits() -> Iterator[None]:
    with mock.patch.multiple(replacing, SMALL_BYTES=40_000, _TRIAL=4):
        yield


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> LargeTable:
    """A table of one file."""
    tables = str(tmp_path_factory.mktemp("begun") / "tables")
    create_tables(tables, {})
    table = LargeTable(tables, rows_of(np.arange(GROUPS), 0))
    table.writer.append(GROUP_OFFSETS, table.expected)
    return table


@pytest.fixture(scope="module")
def settled(begun: LargeTable, tmp_path_factory: pytest.TempPathFactory) -> LargeTable:
    """A table of which the same groups have often committed, and are in files of their own."""
    table = begun.copy(tmp_path_factory.mktemp("settled"))
    for _ in range(5):
        table.merge(HUNDREDTH)
    return table


@pytest.fixture
def large(
    request: pytest.FixtureRequest, begun: LargeTable, tmp_path: Path
) -> Iterator[LargeTable]:
    """A copy of `begun`, or of the table that the parameter names; its rows are checked."""
    table = request.getfixturevalue(request.param) if hasattr(request, "param") else begun
    copy = table.copy(tmp_path)
    yield copy
    copy.check()


from_settled = pytest.mark.parametrize("large", ["settled"], indirect=True)


def test_the_same_groups_rewrite_only_their_file(large: LargeTable) -> None:
    shares = [large.merge(HUNDREDTH) for _ in range(4)]
    assert shares[0] == 1.0
    assert max(large.merge(HUNDREDTH) for _ in range(5)) <= 0.15


def test_a_table_that_each_merge_rewrites_has_one_file_most_times(large: LargeTable) -> None:
    random = np.random.default_rng(0)
    counts = []
    for _ in range(8):
        assert large.merge(random.choice(GROUPS, 100, replace=False)) == 1.0
        counts.append(len(large.files()))
    assert sorted(counts)[:6] == [1] * 6
    assert min(sorted(counts)[6:]) > 10


@from_settled
def test_a_group_that_commits_seldom_rewrites_one_file_more(large: LargeTable) -> None:
    shares = [large.merge(np.append(HUNDREDTH, 1 + other)) for other in range(10)]
    assert np.mean(shares) <= 0.25


def test_groups_that_commit_in_turn_gather_in_few_files(large: LargeTable) -> None:
    for _ in range(2):
        for first in range(10):
            large.merge(HUNDREDTH + first)
    assert np.mean([large.merge(HUNDREDTH + first) for first in range(10)]) <= 0.4


@pytest.mark.long
def test_files_do_not_become_many_nor_small(large: LargeTable) -> None:
    random = np.random.default_rng(0)
    for _ in range(40):
        large.merge(random.choice(GROUPS, 2, replace=False))
    assert len(large.files()) <= replacing.MOST_FILES + 10


@from_settled
def test_new_keys_add_a_file_and_old_rows_stay(large: LargeTable) -> None:
    before = {file["path"] for file in large.files()}
    rows = rows_of(HUNDREDTH, 9)
    one_each = (pc.field("topic") == "topic-0") & (pc.field("partition") == 0)
    new = rows.filter(one_each)
    column = new.schema.get_field_index("topic")
    topics = pa.array(["new"] * new.num_rows)
    new = new.set_column(column, new.schema.field(column), topics)
    large.writer.merge(GROUP_OFFSETS, new, guard="record_offset")
    after = {file["path"] for file in large.files()}
    assert before < after
    deleting = new.append_column("deletes", pa.array([True] * new.num_rows))
    large.writer.merge(GROUP_OFFSETS, deleting, guard="record_offset", deletes="deletes")
    assert {file["path"] for file in large.files()} == before


@from_settled
def test_maintenance_leaves_the_files_as_they_are(large: LargeTable) -> None:
    before = {file["path"] for file in large.files()}
    versions = {GROUP_OFFSETS.name: delta.current_version(large.tables, GROUP_OFFSETS)}
    kept = maintenance._KeptVersions(large.tables, NOW, versions, versions)
    done = maintenance._maintain_table(large.writer.epoch, GROUP_OFFSETS, kept, NOW)
    assert (done.files_compacted, done.error) == (0, "")
    assert len(before) > maintenance.MOST_SMALL_FILES
    assert {file["path"] for file in large.files()} == before
    assert large.merge(HUNDREDTH) <= 0.15


@from_settled
def test_a_compaction_meanwhile_is_a_conflict_that_is_retried(
    large: LargeTable, monkeypatch: pytest.MonkeyPatch
) -> None:

    def compacting_first(opened: DeltaTable, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(writer_module, "write_deltalake", write_deltalake)
        other = DeltaTable(large.path)
        other.optimize.compact(commit_properties=large.writer.epoch.maintenance(other))
        write_deltalake(opened, *arguments, **options)

    monkeypatch.setattr(writer_module, "write_deltalake", compacting_first)
    large.merge(HUNDREDTH)
    rows = delta.read(large.tables, GROUP_OFFSETS, ["commit_timestamp"])
    newest = pc.equal(rows["commit_timestamp"], NOW + timedelta(seconds=large.step))
    assert pc.sum(newest).as_py() == KEYS // 100


@from_settled
def test_an_older_writer_is_fenced_between_its_read_and_its_commit(
    large: LargeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = large.files()

    def overtaken(opened: DeltaTable, *arguments: Any, **options: Any) -> None:
        monkeypatch.setattr(writer_module, "write_deltalake", write_deltalake)
        assert options["predicate"] is not None
        WriterEpoch.take(large.tables, "newer", GROUP_OFFSETS)
        write_deltalake(opened, *arguments, **options)

    monkeypatch.setattr(writer_module, "write_deltalake", overtaken)
    with pytest.raises(WriterFenced):
        large.merge(HUNDREDTH)
    assert large.files() == before
