"""Where the tables are: a path or the name of a schema."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.tables.locations import is_schema_name


@pytest.mark.parametrize("tables", ["spark_catalog.kafka", "unity.Kafka_1", "_a.b", "new.tables"])
def test_two_identifiers_with_a_dot_name_a_schema(tables: str) -> None:
    assert is_schema_name(tables)


@pytest.mark.parametrize(
    "tables",
    [
        *("tables", "./a.b", "a.b/", "a/b.c", "/data/a.b", "a.b.c", ".a", "a.", "a..b", ""),
        *("tables.2026", "2026.tables", "a-b.c", "a.b c", "a.b\n", "é.b"),
        *("s3://a.b", "file:a.b", "hdfs://nn.example/a.b"),
    ],
)
def test_all_else_is_a_location(tables: str) -> None:
    assert not is_schema_name(tables)


def test_an_existing_folder_is_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_schema_name("spark_catalog.kafka")
    Path("spark_catalog.kafka").mkdir()
    assert not is_schema_name("spark_catalog.kafka")
