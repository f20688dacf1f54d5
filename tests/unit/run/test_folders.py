"""The tables folder and the checkpoint of a run's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from streaming.errors import ConfigurationError
from streaming.run.settings import RunSettings

NEEDED: dict[str, Any] = {"bootstrap_servers": "localhost:9092", "tables": "there/tables"}


@pytest.mark.parametrize(
    ("folders", "tables", "checkpoint"),
    [
        ({"tables": "a/b/"}, "a/b", "a/checkpoints/b"),
        ({"tables": "tables"}, "tables", "checkpoints/tables"),
        ({"tables": "a", "checkpoint": "c"}, "a", "c"),
    ],
)
def test_the_checkpoint_is_beside_the_tables_folder_and_both_are_absolute(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    folders: dict[str, str],
    tables: str,
    checkpoint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = RunSettings(**NEEDED | folders)

    assert settings.tables == str(tmp_path / tables)
    assert settings.checkpoint == str(tmp_path / checkpoint)


class TestTablesInACatalog:
    """`--tables` names a schema, whose location is found later."""

    NAMED: ClassVar = NEEDED | {"tables": "spark_catalog.kafka"}

    @pytest.fixture(autouse=True)
    def _without_such_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    def test_the_name_stays_until_the_folder_is_known(self) -> None:
        settings = RunSettings(**self.NAMED, trigger="30s")
        assert (settings.tables, settings.checkpoint) == ("spark_catalog.kafka", "")
        assert settings.in_folder("file:/wh/kafka.db") == RunSettings(
            **NEEDED | {"tables": "/wh/kafka.db"},
            checkpoint="/wh/checkpoints/kafka.db",
            catalog="spark_catalog.kafka",
            trigger="30s",
        )

    def test_a_checkpoint_that_is_given_is_used(self, tmp_path: Path) -> None:
        settings = RunSettings(**self.NAMED, checkpoint="c").in_folder("hdfs://nn/kafka.db")
        assert settings.tables == "hdfs://nn/kafka.db"
        assert settings.checkpoint == str(tmp_path / "c")

    def test_the_tables_have_one_schema(self) -> None:
        with pytest.raises(ConfigurationError, match=r"^--catalog: --tables .* names a schema"):
            RunSettings.checked(**self.NAMED, catalog="monitoring")


@pytest.mark.parametrize(
    ("folders", "checkpoint"),
    [
        (["checkpoints/t", "data/t"], "checkpoints/t"),
        # There is a newer one.
        (["checkpoints/t", "data/t", "data/checkpoints/t"], "data/checkpoints/t"),
        # The tables are new.
        (["checkpoints/t"], "data/checkpoints/t"),
        # It belongs to other tables, which are in the working directory.
        (["checkpoints/t", "data/t", "t"], "data/checkpoints/t"),
    ],
)
def test_the_checkpoint_of_an_earlier_release_is_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folders: list[str], checkpoint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)

    settings = RunSettings(**NEEDED | {"tables": str(tmp_path / "data/t")})
    assert settings.checkpoint == str(tmp_path / checkpoint)


def test_the_checkpoint_of_tables_in_a_store_is_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    settings = RunSettings(**NEEDED | {"tables": "s3://bucket/t"})
    assert settings.checkpoint == str(tmp_path / "checkpoints/t")


def test_addresses_of_other_file_systems_are_kept() -> None:
    settings = RunSettings(**NEEDED | {"tables": "s3://bucket/t", "checkpoint": "s3://bucket/c"})

    assert (settings.tables, settings.checkpoint) == ("s3://bucket/t", "s3://bucket/c")
