"""The classes of answers: columns of tables and views by name, and fields of their own.

The description of a column is that of `columns.toml`. A field of its own has a docstring.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from streaming.tables.descriptions import column_description

P = TypeVar("P", bound="Part")


class Part(BaseModel):
    """An answer, or a part of it. Made from a row, it takes its fields and leaves out others."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Answer(Part):
    """The fields of every answer about one cluster."""

    cluster: str
    """Name of the cluster."""
    at: datetime
    """Moment of the answer. Ages are measured to it, or to `evaluated_at` where a row has it."""
    notice: str | None
    """Warning that the tables are stale or still loading; null if they are current."""


class Page(Answer, Generic[P]):
    """A page of a list."""

    items: list[P]
    """Rows of this page."""
    next_cursor: str | None
    """Value of `cursor` for the next page; null on the last page."""


class RecordId(Part):
    """The place of a record in `__consumer_offsets`."""

    log_partition: int
    """Partition of `__consumer_offsets`."""
    record_offset: int
    """Offset of the record in the log partition. It is not a committed offset."""


def record_id(log_partition: int, record_offset: int) -> RecordId:
    """The place of a record."""
    return RecordId(log_partition=log_partition, record_offset=record_offset)


def columns(
    table: str,
    row: type,
    *names: str,
    without: Collection[str] = (),
    is_nullable: bool = False,
) -> Callable[[type[P]], type[P]]:
    """Put columns of a table or view into a class of answers, before its other fields.

    A field of the class with the name of a column takes its place, and its description if the field
    has no docstring.

    Args:
        table: the table or view, whose columns are described in `columns.toml`.
        row: the class of its rows.
        names: the columns, and maybe other fields, in this order; by default all columns.
        without: columns that are not in the answer.
        is_nullable: whether each of the columns may be null here.
    """
    types = get_type_hints(row, include_extras=True)

    def add(model: type[P]) -> type[P]:
        fields: dict[str, Any] = {}
        for name in dict.fromkeys((*(names or types), *model.__annotations__)):
            if name in model.__annotations__:
                field = model.model_fields[name]
                field.description = field.description or column_description(table, name)
                fields[name] = (field.annotation, field)
            elif name not in without:
                kind = types[name] | None if is_nullable else types[name]
                fields[name] = (kind, Field(description=column_description(table, name)))
        return create_model(
            model.__name__,
            __base__=model.__bases__,
            __doc__=model.__doc__,
            __module__=model.__module__,
            **fields,
        )

    return add
