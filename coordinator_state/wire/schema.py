"""Schemas of versioned messages: their fields in wire order, as in Kafka's JSON schemas.

A message has a field if its version is within `versions`. Tagged fields are in a section at the end
of their struct. Field names are the ones that Kafka's message formatters print.

Source: generator/src/main/java/org/apache/kafka/message/FieldSpec.java at 4.2.0; KIP-482.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

FieldType = Literal[
    "int8", "int16", "uint16", "int32", "int64", "string", "bytes", "uuid", "struct"
]

ANY_VERSION: Final = 0x7FFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a struct; `fields` are the fields of a nested struct."""

    name: str
    type: FieldType
    versions: tuple[int, int] = (0, ANY_VERSION)
    is_array: bool = False
    is_nullable: bool = False
    default: Any = None
    tag: int | None = None
    fields: tuple[Field, ...] = ()

    def is_in(self, version: int) -> bool:
        """Whether this version has the field."""
        return self.versions[0] <= version <= self.versions[1]

    @property
    def is_nullable_single(self) -> bool:
        """Whether a single value may be null; elements of an array are never null."""
        return self.is_nullable and not self.is_array


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A versioned message: its fields in wire order and its first flexible version, if any."""

    name: str
    versions: tuple[int, int]
    fields: tuple[Field, ...]
    first_flexible: int | None = None

    def is_flexible(self, version: int) -> bool:
        """Whether this version has compact lengths and tagged fields (KIP-482)."""
        return self.first_flexible is not None and version >= self.first_flexible
