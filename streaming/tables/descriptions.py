"""Descriptions of the tables, the views, their columns and the words in them: `columns.toml`.

The file is the only place of these texts. The documentation, the dbt package and the OpenAPI
description take them from here.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE: Final = Path(__file__).with_name("columns.toml")


def table_description(table: str) -> str:
    """The description of a table or view, in one or two sentences."""
    return str(_of_table(table)["description"])


def table_note(table: str) -> str:
    """More about a table or view, as Markdown; empty if there is no more."""
    return str(_of_table(table).get("note", "")).strip()


def column_description(table: str, column: str) -> str:
    """The description of a column of a table or view.

    Raises:
        KeyError: the column has no description.
    """
    of_table = _of_table(table)
    if "like" in of_table:
        return column_description(of_table["like"], column)
    own = of_table.get("columns", {})
    return str(own[column] if column in own else descriptions()["columns"][column])


def meanings(words: str) -> Mapping[str, str]:
    """The meaning of each of the `statuses`, `causes` or `events`, in their order."""
    meaning_by_word: Mapping[str, str] = descriptions()[words]
    return meaning_by_word


@cache
def descriptions() -> dict[str, Any]:
    """The whole file: `columns` of every table, `tables` by name, and words."""
    return tomllib.loads(_FILE.read_text(encoding="utf-8"))


def _of_table(table: str) -> dict[str, Any]:
    description: dict[str, Any] = descriptions()["tables"][table]
    return description
