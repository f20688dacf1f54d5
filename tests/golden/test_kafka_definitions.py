"""No release writes a record type, a version or a field that the codec does not know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from coordinator_state.records.record_types import RECORD_TYPES, RecordType
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.records.transaction_records import TRANSACTION_RECORD_TYPES
from coordinator_state.wire.schema import Field, Schema
from tests.golden.kafka_definitions import FieldDefinition, RecordDefinition, of_release
from tests.golden.record_type_table import cases, paths, table_lines
from tests.support.brokers.jar_sets import RELEASES

RecordTypes = Mapping[int, RecordType]

RECORD_TYPES_OF: dict[str, RecordTypes] = {
    "group": RECORD_TYPES,
    "transaction": TRANSACTION_RECORD_TYPES,
    "share": SHARE_STATE_RECORD_TYPES,
}
"""The record types that each coordinator writes."""


@pytest.mark.parametrize(("coordinator", "release"), cases())
def test_every_record_of_a_release_is_known(coordinator: str, release: str) -> None:
    definitions = of_release(coordinator, release)
    # 3.9 has the records of offsets, and of groups as far as its new coordinator has them.
    least = {"group": {0, 1, 2}, "transaction": {0}, "share": {0, 1}}[coordinator]
    assert least <= {definition.record_type for definition in definitions}
    known = RECORD_TYPES_OF[coordinator]
    assert [problem for definition in definitions for problem in _problems(definition, known)] == []


@pytest.mark.parametrize("coordinator", RECORD_TYPES_OF)
def test_record_types_have_the_names_of_the_newest_release(coordinator: str) -> None:
    names = {kind.record_type: kind.name for kind in of_release(coordinator, RELEASES[-1])}
    known = {number: kind.name for number, kind in RECORD_TYPES_OF[coordinator].items()}
    # No release after the early access of share groups has type 9.
    known.pop(9, None)
    assert known == names


@pytest.mark.parametrize("coordinator", RECORD_TYPES_OF)
def test_no_field_is_known_that_no_release_has(coordinator: str) -> None:
    in_releases = {
        (definition.record_type, path)
        for of_coordinator, release in cases()
        if of_coordinator == coordinator
        for definition in of_release(coordinator, release)
        for fields in definition.values.values()
        for path in paths(fields)
    }
    known = {
        (number, path)
        for number, kind in RECORD_TYPES_OF[coordinator].items()
        for schema in (kind.value, kind.early_access_value)
        if schema is not None
        for path in paths(schema.fields)
    }
    if coordinator == "group":
        # Brokers up to 4.0 read any OffsetCommitValue after a key of type 0.
        known = {(number, path) for number, path in known if number}
    assert known <= in_releases


def test_the_docs_have_the_table_of_record_types_by_release(repository: Path) -> None:
    assert "\n".join(table_lines()) in (repository / "docs" / "replay.md").read_text()


def _problems(definition: RecordDefinition, record_types: RecordTypes) -> Iterator[str]:
    known = record_types.get(definition.record_type)
    name = f"{definition.name} ({definition.record_type})"
    if known is None:
        yield f"{name} is not known"
        return
    yield from _of_fields(f"key of {name}", definition.key, known.key_fields, 0)
    for version, fields in definition.values.items():
        at = f"{name} v{version}"
        first, last = known.versions
        if not first <= version <= last:
            yield f"{at} is not known"
            continue
        if (definition.first_flexible is not None and version >= definition.first_flexible) != (
            known.value.is_flexible(version)
        ):
            yield f"{at} is flexible in one of both"
        layouts = [
            list(_of_fields(at, fields, schema.fields, version)) for schema in _schemas(known)
        ]
        if all(layouts):
            yield from layouts[0]


def _schemas(known: RecordType) -> list[Schema]:
    return [known.value, *filter(None, [known.early_access_value])]


def _of_fields(
    at: str, definitions: Sequence[FieldDefinition], known: Sequence[Field], version: int
) -> Iterator[str]:
    """Other fields, in another order; a tagged field that only we know is no problem."""
    of_version = [field for field in known if field.is_in(version)]
    by_tag = {field.tag: field for field in of_version if field.tag is not None}
    untagged = [field for field in of_version if field.tag is None]
    names = [field.name for field in definitions if field.tag is None]
    if names != [field.name for field in untagged]:
        yield f"{at}: fields {names}, known {[field.name for field in untagged]}"
        return
    pairs = zip((field for field in definitions if field.tag is None), untagged, strict=True)
    tagged = ((field, by_tag.get(field.tag)) for field in definitions if field.tag is not None)
    for field, same in (*pairs, *tagged):
        if same is None:
            yield f"{at}: field {field.name} with tag {field.tag} is not known"
            continue
        wanted = (field.name, field.type, field.is_array, field.is_nullable)
        if wanted != (same.name, same.type, same.is_array, same.is_nullable):
            yield f"{at}: field {wanted} is known as {same}"
        yield from _of_fields(f"{at}.{field.name}", field.fields, same.fields, version)
