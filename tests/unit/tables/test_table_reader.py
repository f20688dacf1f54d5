from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, TableFeatures
from deltalake.exceptions import DeltaError

from coordinator_state.replay.partitioner import partition_for
from coordinator_state.replay.releases import Release
from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.tables.creation import set_properties
from streaming.tables.delta import error_text
from streaming.tables.load_state import LoadState
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, PROPERTY_KAFKA_RELEASE, PROPERTY_SEMANTICS
from streaming.tables.writer_epoch import WriterEpoch
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

GROUP = {"group_id": "g"}


@pytest.fixture
def tables(tmp_path: Path) -> str:
    """Tables with a group after their first micro-batch."""
    folder = create_tables(tmp_path / "tables")
    apply_micro_batch(folder, groups=[GROUP], progress=[{"next_offset": 1}])
    return folder


def test_reads_every_table_at_the_version_that_load_progress_names(tables: str) -> None:
    """Unless the newest version is asked for."""
    under_way = {"group_id": "of a micro-batch under way"}
    write_rows(tables, "groups", [GROUP, under_way])

    assert TableReader(tables).read("groups")["group_id"].to_pylist() == ["g"]
    assert TableReader(tables, consistent=False).read("groups").num_rows == 2
    for command in (["show", "groups"], ["sql", "SELECT group_id FROM groups"]):
        of_tables = [*command, "--tables", tables, "--output", "json"]
        for options, rows in (([], 1), (["--consistent"], 1), (["--newest"], 2)):
            assert len(json_lines(call(*of_tables, *options))) == rows, (command, options)
        refused = call(*of_tables, "--newest", "--as-of", "1", exit_code=2)
        assert "leave out --newest" in refused.stderr


def test_a_reader_that_is_sent_to_another_process_reads_the_same_versions(tables: str) -> None:
    write_rows(tables, "group_status", [GROUP])
    reader = TableReader(tables)
    sent = deepcopy(reader.pinned())
    write_rows(tables, "group_status", [GROUP, {"group_id": "of later"}])
    apply_micro_batch(tables, groups=[GROUP, {"group_id": "of later"}], progress=[{}])

    assert sent.moment == reader.moment
    for name in ("groups", "group_status"):
        assert sent.read(name, ["group_id"]).to_pylist() == [GROUP]
        assert TableReader(tables).read(name).num_rows == 2


def test_rows_of_log_partitions_are_those_of_their_own_groups(tmp_path: Path) -> None:
    """Also in a table without the log partition."""
    tables = create_tables(tmp_path, log_partitions="3")
    own = {group: partition_for(group, 3) for group in "abcdefgh"}
    rows = [
        {"group_id": group, "log_partition": (p + n) % 3}
        for group, p in own.items()
        for n in (0, 1)
    ]
    apply_micro_batch(tables, groups=rows, progress=[{}])
    write_rows(tables, "group_status", [{"group_id": group} for group in own])
    reader = TableReader(tables)

    assert reader.read("groups").num_rows == len(rows)
    for wanted in ([0], [1, 2], range(3)):
        groups = [group for group, log_partition in own.items() if log_partition in wanted]
        assert groups
        restricted = reader.limited_to(wanted)
        for name in ("groups", "group_status"):
            for filters in (None, [("group_id", ">=", "a")], pc.field("group_id") >= "a"):
                read = restricted.read(name, ["group_id"], filters)
                assert (read.column_names, sorted(read["group_id"].to_pylist())) == (
                    ["group_id"],
                    groups,
                )
    assert reader.limited_to().read("groups").num_rows == len(own)


def test_a_snapshot_has_the_loaders_rules_of_its_time(tables: str) -> None:
    before = TableReader(tables)
    changed = {PROPERTY_SEMANTICS: "scala", PROPERTY_KAFKA_RELEASE: "4.1"}
    set_properties(WriterEpoch.current(str(tables)), LOAD_PROGRESS, changed)

    now, then = TableReader(tables), TableReader(tables, as_of=before.version)
    assert (now.semantics, now.release) == ("scala", Release.KAFKA_4_1)
    assert (then.semantics, then.release) == (before.semantics, before.release)


def test_the_newest_of_the_versions_counts_where_rows_name_several(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    apply_micro_batch(tables, groups=[GROUP], progress=[])
    old = {"log_partition": 0, "table_versions": [("groups", 0)]}
    new = {"log_partition": 1, "table_versions": [("groups", 1)]}
    write_rows(tables, "load_progress", [old, new])

    assert TableReader(tables).read("groups").num_rows == 1


def test_a_table_is_empty_before_the_first_micro_batch(tmp_path: Path) -> None:
    reader = TableReader(create_tables(tmp_path))

    assert reader.read("group_offsets", ["topic"]).schema.names == ["topic"]
    assert reader.read("group_offsets").num_rows == 0
    assert reader.load_states == {}


def test_filters_are_a_list_or_an_expression_for_every_table(tmp_path: Path) -> None:
    tables = create_tables(tmp_path)
    apply_micro_batch(
        tables,
        groups=[GROUP, {"group_id": "h"}],
        progress=[{"log_partition": 0}, {"log_partition": 1}],
    )
    reader = TableReader(tables)

    assert reader.read("groups", filters=[("group_id", "=", "h")]).num_rows == 1
    none = reader.read("groups", ["state"], [("group_id", "in", [])])
    assert (none.num_rows, none.column_names) == (0, ["state"])
    assert reader.read("groups", ["state"], pc.field("group_id") == "h").num_columns == 1
    progress = reader.read("load_progress", ["log_partition"], [("log_partition", "=", 1)])
    assert progress.to_pylist() == [{"log_partition": 1}]


def test_tells_what_the_tables_were_made_from(tmp_path: Path) -> None:
    tables = create_tables(tmp_path, log_partitions="7", semantics="scala")
    apply_micro_batch(tables, progress=[{"next_offset": 5, "high_watermark": 6}])
    reader = TableReader(tables)

    assert (reader.cluster_id, reader.topic_id) == ("cluster", "topic")
    assert (reader.log_partitions, reader.semantics) == (7, "scala")
    assert reader.load_states == {
        0: LoadState(log_partition=0, state="current", next_offset=5, high_watermark=6)
    }


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        ("nowhere", r"no folder .*nowhere: coordinator-state run"),
        ("of others", "has no tables of coordinator-state"),
        ("of a newer release", "which a newer release created"),
    ],
)
def test_a_folder_without_tables_of_this_release_is_refused(
    tmp_path: Path, folder: str, message: str
) -> None:
    (tmp_path / "of others").mkdir()
    create_tables(tmp_path / "of a newer release", format_version="x")
    with pytest.raises(ConfigurationError, match=message):
        TableReader(tmp_path / folder)


def test_a_folder_that_vanishes_while_it_is_read_is_named(tables: str) -> None:
    reader = TableReader(tables)
    (file,) = Path(tables, "groups").glob("*.parquet")
    file.unlink()

    with pytest.raises(ConfigurationError) as raised:
        reader.read("groups")
    assert str(raised.value) == (
        f"cannot read {tables}/groups: the file {file.name} is missing; "
        "was the folder deleted or moved?"
    )


@pytest.mark.parametrize(
    ("error", "file"),
    [
        (DeltaError("Kernel error: File not found: t/_delta_log/0.json"), "t/_delta_log/0.json"),
        (OSError(2, "Failed to open local file 't/part-0.parquet'. Detail: x"), "t/part-0.parquet"),
        (FileNotFoundError("part-0.parquet"), "part-0.parquet"),
    ],
)
def test_a_missing_file_is_no_kernel_error(error: Exception, file: str) -> None:
    said = f"the file {file} is missing; was the folder deleted or moved?"
    assert error_text(error) == said


@pytest.mark.parametrize("name", ["group_events", "transactions"])
def test_a_folder_that_lacks_a_table_is_refused_whatever_is_read(tables: str, name: str) -> None:
    shutil.rmtree(Path(tables, name))
    with pytest.raises(TablesUnavailable, match=f"{name} is missing: restore it"):
        TableReader(tables)


def test_a_table_beside_the_snapshot_is_refused_where_it_is_read(tables: str) -> None:
    """Bases have none."""
    shutil.rmtree(Path(tables, "log_offsets"))
    with pytest.raises(TablesUnavailable, match="log_offsets is missing: restore it"):
        TableReader(tables).read("log_offsets")


@pytest.mark.parametrize(
    ("feature", "named"),
    [
        (TableFeatures.ColumnMapping, "columnMapping"),
        (TableFeatures.V2Checkpoint, "v2Checkpoint"),
    ],
)
def test_a_table_with_features_of_a_later_reader_is_refused(
    tables: str, feature: TableFeatures, named: str
) -> None:
    DeltaTable(f"{tables}/groups").alter.add_feature(feature, allow_protocol_versions_increase=True)
    write_rows(tables, "load_progress", [{"table_versions": [("groups", 2)]}])

    with pytest.raises(ConfigurationError, match=rf"groups has Delta features .*{named}"):
        TableReader(tables).read("groups")
