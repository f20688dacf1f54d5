"""The reference pages are those that `docsite` makes from the code, and what they say is so."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from coordinator_state import CoordinatorTables
from docsite.markdown import with_parts
from docsite.pages import FILES, PAGES, SOURCES, generated
from docsite.tables import key_of, type_name
from streaming.tables.descriptions import descriptions
from streaming.views.definitions import SCHEMAS, VIEWS
from tests.support.tables.asked_tables import create_asked_tables

NOW = datetime(2026, 11, 21, 3, 14, tzinfo=timezone.utc)


@pytest.mark.parametrize("path", [*FILES, *PAGES, SOURCES])
def test_a_page_is_the_generated_one(repository: Path, path: str) -> None:
    assert (repository / path).read_text() == generated(path, repository), "python -m docsite"


def test_a_page_without_one_of_its_parts_is_refused() -> None:
    page = "a\n\n<!-- keys: begin -->\n\nold\n\n<!-- keys: end -->\n"
    assert with_parts(page, {"keys": lambda: "new"}) == page.replace("old", "new")
    with pytest.raises(ValueError, match="has the parts"):
        with_parts(page, {"keys": str, "values": str})


def test_every_description_is_that_of_a_column() -> None:
    """A column without a description has no page that can be generated."""
    texts = descriptions()
    assert texts["tables"].keys() == SCHEMAS.keys()
    used = set()
    for table, schema in SCHEMAS.items():
        own = texts["tables"][table].get("columns", {})
        assert own.keys() <= set(schema.names)
        used |= set(schema.names) - own.keys()
        # Another description of a column must differ from the shared one.
        assert [
            column for column, text in own.items() if text == texts["columns"].get(column)
        ] == []
    assert used >= texts["columns"].keys()


def test_keys_of_views_identify_rows(tmp_path: Path) -> None:
    tables = CoordinatorTables(create_asked_tables(tmp_path / "tables", NOW))
    for view in VIEWS:
        key = ", ".join(key_of(view))
        query = f"SELECT count(*) AS rows, count(DISTINCT ({key})) AS keys FROM {view}"  # noqa: S608
        (row,) = tables.sql(query)
        assert row["rows"] == row["keys"]
        assert row["rows"] > 0 or view == "simple_groups"


def test_types_are_those_of_spark() -> None:
    from pyspark.sql.pandas.types import from_arrow_type

    for schema in SCHEMAS.values():
        for column in schema:
            of_spark = from_arrow_type(column.type).simpleString()
            assert type_name(column.type).replace(": ", ":").replace(", ", ",") == of_spark
