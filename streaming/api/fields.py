"""The descriptions of the fields of answers: those of columns, and docstrings of other fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from streaming.tables.descriptions import column_description


def described(*tables: str) -> ConfigDict:
    """The configuration of an answer class, for its part of the OpenAPI description.

    A field with a docstring has that as its description, also in subclasses. Each other field is a
    column of one of the tables or views; the first one that has it describes it.
    """

    def add_descriptions(schema: dict[str, Any], answer: type) -> None:
        missing = {
            name: field
            for name, field in schema.get("properties", {}).items()
            if "description" not in field
        }
        inherited = _inherited(answer) if missing else {}
        for name, field in missing.items():
            field["description"] = inherited.get(name) or _of_column(name, tables)

    return ConfigDict(use_attribute_docstrings=True, json_schema_extra=add_descriptions)


def _inherited(answer: type) -> dict[str, str]:
    """The descriptions of the base class, whose docstrings pydantic does not read."""
    base = answer.__bases__[0]
    if not hasattr(base, "__pydantic_config__"):
        return {}
    schema = TypeAdapter(base).json_schema(mode="serialization")
    return {name: field["description"] for name, field in schema["properties"].items()}


def _of_column(name: str, tables: Sequence[str]) -> str:
    for table in tables:
        try:
            return column_description(table, name)
        except KeyError:
            continue
    raise KeyError(f"the field {name} needs a docstring")
