"""The records of a Kafka release, as its own message definitions have them.

Kafka generates its classes from JSON files, and ships them in the jars of its coordinators. Up
to 4.0 a key has its record types as versions; later ones name the type (`apiKey`).

Source: generator/src/main/java/org/apache/kafka/message/{MessageSpec,FieldSpec}.java at 4.2.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from streaming.jvm.jars import cached_jars
from tests.support.brokers.jar_sets import SCALA_VERSION, coordinator_jar_set

Json = Mapping[str, Any]

_FILE: Final = re.compile(r"common/message/\w+\.json")
_COMMENT: Final = re.compile(r"^\s*//.*$", re.MULTILINE)
_ANY_VERSION: Final = 0x7FFF
# 3.9 has share groups only behind `unstable.api.versions.enable`, in layouts that no release wrote.
_UNSTABLE: Final = {(SCALA_VERSION, number) for number in range(9, 16)}


class FieldDefinition(NamedTuple):
    """A field of one version, with Kafka's name in lower camel case."""

    name: str
    type: str
    is_array: bool
    is_nullable: bool
    tag: int | None
    fields: tuple[FieldDefinition, ...] = ()


class RecordDefinition(NamedTuple):
    """A record type; `values` has the fields by version of the value."""

    record_type: int
    name: str
    key: tuple[FieldDefinition, ...]
    values: Mapping[int, tuple[FieldDefinition, ...]]
    first_flexible: int | None


def of_release(coordinator: str, release: str) -> list[RecordDefinition]:
    """Every record type that a coordinator of a release writes."""
    prefix = f"kafka-{coordinator}-coordinator-"
    (jar,) = (
        jar for jar in cached_jars(coordinator_jar_set(release)) if jar.name.startswith(prefix)
    )
    return [
        definition
        for definition in _definitions(jar)
        if coordinator != "group" or (release, definition.record_type) not in _UNSTABLE
    ]


def _definitions(jar: Path) -> list[RecordDefinition]:
    with ZipFile(jar) as archive:
        files = [name for name in archive.namelist() if _FILE.fullmatch(name)]
        definitions = [json.loads(_COMMENT.sub("", archive.read(name).decode())) for name in files]
    messages = {message["name"]: message for message in definitions}
    return sorted(
        definition
        for name, key in messages.items()
        if name.endswith("Key")
        for definition in _records(key, messages[f"{name.removesuffix('Key')}Value"])
    )


def _records(key: Json, value: Json) -> Iterator[RecordDefinition]:
    first_flexible, _ = _range(value["flexibleVersions"])
    for version in _versions(key["validVersions"]):
        yield RecordDefinition(
            record_type=key.get("apiKey", version),
            name=key["name"].removesuffix("Key"),
            key=_fields(key["fields"], key, version),
            values={
                of_value: _fields(value["fields"], value, of_value)
                for of_value in _versions(value["validVersions"])
            },
            first_flexible=first_flexible,
        )


def _fields(fields: list[Json], message: Json, version: int) -> tuple[FieldDefinition, ...]:
    """The fields of a version in wire order, tagged ones last, by tag."""
    structs = {struct["name"]: struct["fields"] for struct in message.get("commonStructs", ())}
    definitions = []
    for field in fields:
        is_tagged = _has(field.get("taggedVersions", "none"), version)
        if not (is_tagged or _has(field.get("versions", "none"), version)):
            continue
        kind: str = field["type"]
        of_struct = field.get("fields") or structs.get(kind.removeprefix("[]"))
        definitions.append(
            FieldDefinition(
                name=field["name"][0].lower() + field["name"][1:],
                type="struct" if of_struct else kind.removeprefix("[]"),
                is_array=kind.startswith("[]"),
                is_nullable=_has(field.get("nullableVersions", "none"), version),
                tag=field["tag"] if is_tagged else None,
                fields=_fields(of_struct, message, version) if of_struct else (),
            )
        )
    return tuple(sorted(definitions, key=lambda field: -1 if field.tag is None else field.tag))


def _has(versions: str, version: int) -> bool:
    first, last = _range(versions)
    return first is not None and first <= version <= last


def _versions(text: str) -> range:
    first, last = _range(text)
    assert first is not None
    return range(first, last + 1)


def _range(text: str) -> tuple[int | None, int]:
    """The first and the last version of `0`, `0-3`, `2+` or `none`."""
    if text == "none":
        return None, -1
    if text.endswith("+"):
        return int(text[:-1]), _ANY_VERSION
    first, _, last = text.partition("-")
    return int(first), int(last or first)
