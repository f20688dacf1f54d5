"""Names of a tables folder: its lock by each of them, and names of schemas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.local.broker.configuration import free_port
from streaming.run.settings import RunSettings
from streaming.tables.folder import has_tables, locked
from streaming.tables.locations import is_schema_name
from streaming.tables.reader import TableReader
from tests.support.clients.command_line import call
from tests.support.tables.tables_folder import create_tables, write_rows

ADDRESSES: dict[str, Callable[[Path], str]] = {
    "path": str,
    "file://": lambda folder: f"file://{folder}",
    "file:": lambda folder: f"file:{folder}",
    "file://localhost": lambda folder: f"file://localhost{folder}",
    "percent-encoded": lambda folder: f"file://{folder.parent}/my%20{folder.name.split()[-1]}",
    "symbolic link": lambda folder: str(folder.parent / "link"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tables = tmp_path / "my tables"
    create_tables(tables)
    (tmp_path / "link").symlink_to(tables)
    return tables


@pytest.mark.parametrize(
    "name", ["a b", "a#b", "100%", "a%b", "a:b", "a?b", "a{1}", "\u00e4\u2603"]
)
def test_the_files_of_tables_are_below_the_named_folder(tmp_path: Path, name: str) -> None:
    tables = create_tables(tmp_path / name / "tables")
    write_rows(tables, "groups", [{"group_id": "g"}])
    assert TableReader(tables, consistent=False).read("groups")["group_id"].to_pylist() == ["g"]
    assert [*tmp_path.iterdir()] == [tmp_path / name]
    assert list((tmp_path / name / "tables/groups").glob("*.parquet"))


@pytest.mark.parametrize("name", ["a%20b", "a%2fb", "a\\b", "[a", "a]", "a^b", "a|b", "a\nb"])
def test_a_folder_that_delta_rs_cannot_use_is_refused(tmp_path: Path, name: str) -> None:
    tables = str(tmp_path / name / "tables")
    with pytest.raises(ConfigurationError, match="name a folder"):
        TableReader(tables)
    with pytest.raises(ConfigurationError, match="name a folder"), locked(tables):
        pass
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_a_locked_folder_is_refused_by_every_name(
    folder: Path, address: Callable[[Path], str]
) -> None:
    tables = address(folder)
    with locked(str(folder)):
        with pytest.raises(ConfigurationError, match="another run is writing to"), locked(tables):
            pass
        refused = call("maintain", "--tables", tables, exit_code=2)
        assert f"another run is writing to {tables}" in refused.stderr
    with (
        locked(tables),
        pytest.raises(ConfigurationError, match="another run"),
        locked(str(folder)),
    ):
        pass


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_a_run_and_a_reader_know_a_folder_by_its_path(
    folder: Path, address: Callable[[Path], str]
) -> None:
    assert TableReader(address(folder)).read("groups").num_rows == 0
    settings = RunSettings(bootstrap_servers="broker:9092", tables=address(folder))
    assert Path(settings.tables).samefile(folder)
    assert Path(settings.checkpoint).name == Path(settings.tables).name


def test_a_store_that_is_away_is_named_and_not_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "test")
    refusal = "cannot read s3://bucket/tables: .*Connection refused"
    with pytest.raises(TablesUnavailable, match=refusal), locked(str(tmp_path)):
        has_tables("s3://bucket/tables")


@pytest.mark.parametrize(
    ("tables", "is_schema"),
    [
        *((name, True) for name in ("spark_catalog.kafka", "unity.Kafka_1", "_a.b", "new.tables")),
        *((name, False) for name in ("tables", "./a.b", "a.b/", "a/b.c", "/data/a.b", "a.b.c", "")),
        *((name, False) for name in (".a", "a.", "a..b", "tables.2026", "2026.tables", "a-b.c")),
        *((name, False) for name in ("a.b c", "a.b\n", "é.b", "s3://a.b", "file:a.b")),
        ("hdfs://nn.example/a.b", False),
    ],
)
def test_two_identifiers_with_a_dot_name_a_schema(tables: str, is_schema: bool) -> None:
    assert is_schema_name(tables) == is_schema


def test_an_existing_folder_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_schema_name("spark_catalog.kafka")
    Path("spark_catalog.kafka").mkdir()
    assert not is_schema_name("spark_catalog.kafka")
