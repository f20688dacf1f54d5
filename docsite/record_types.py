"""docs/record-types.md: the record types with their fields, and the rules by Kafka release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from coordinator_state.records.record_types import RecordType
from coordinator_state.replay.releases import Release
from coordinator_state.wire.schema import ANY_VERSION, Field
from docsite.markdown import Parts, blocks, code, paragraph, prose, table
from streaming.cli.record_json import RECORD_TYPES_OF_TOPIC
from tests.support.brokers.jar_sets import RELEASES, SCALA_VERSION


def _releases() -> str:
    coordinator = [release for release in RELEASES if release != SCALA_VERSION]
    return paragraph(
        "Record batches of magic 0, 1 and 2 are read, with gzip, snappy, lz4 and zstd. "
        f"The tests run against Kafka {', '.join(coordinator[:-1])} and {coordinator[-1]} "
        f"(semantics `coordinator`), and {SCALA_VERSION} (`scala`). `broker` and `demo` start "
        f"each of them: `coordinator-state demo --kafka-version {SCALA_VERSION}`."
    )


def _rules() -> Iterator[Sequence[str]]:
    for name, rule in vars(Release).items():
        if isinstance(rule, property):
            text = (rule.__doc__ or "").split("\n\n")[0].removeprefix("Whether ")
            values = [_value(getattr(release, name)) for release in Release]
            yield [prose(f"{text[0].upper()}{text[1:]}"), *values]


def _value(value: bool | int) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _topic(topic: str, kinds: Mapping[int, RecordType]) -> Iterator[str]:
    yield f"### {code(topic)}"
    rows = [
        (
            str(kind.id),
            kind.name,
            _fields(kind.key_fields),
            "-".join(dict.fromkeys(map(str, kind.versions))),
            _fields(kind.value.fields),
        )
        for kind in kinds.values()
    ]
    yield table(["type", "name", "key", "value versions", "fields of the value"], rows)
    early = {kind.id: kind.early_access_value for kind in kinds.values()}
    for number, schema in early.items():
        if schema is not None:
            yield paragraph(
                f"Kafka 4.0 wrote type {number} with these fields: {_fields(schema.fields)}."
            )


def _fields(fields: Sequence[Field]) -> str:
    return ", ".join(map(_field, fields))


def _field(field: Field) -> str:
    first, last = field.versions
    marks = []
    if first == last:
        marks.append(f"v{first}")
    elif first or last != ANY_VERSION:
        marks.append(f"v{first}+" if last == ANY_VERSION else f"v{first}-v{last}")
    if field.tag is not None:
        marks.append(f"tag {field.tag}")
    name = code(f"{field.name}{'[]' if field.is_array else ''}")
    inner = f" {{{_fields(field.fields)}}}" if field.fields else ""
    versions = f" ({', '.join(marks)})" if marks else ""
    return f"{name}{versions}{inner}"


RECORD_TYPE_PARTS: Final[Parts] = {
    "releases": _releases,
    "rules": lambda: table(["rule", *(f"Kafka {release}" for release in Release)], _rules()),
    "fields": lambda: blocks(
        part for topic, kinds in RECORD_TYPES_OF_TOPIC.items() for part in _topic(topic, kinds)
    ),
}
