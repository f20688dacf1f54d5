"""The table of record types by release in docs/replay.md, made from Kafka's message definitions.

`python -m tests.golden.record_type_table` prints it; `test_kafka_definitions.py` compares it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from coordinator_state.wire.schema import Field
from tests.golden.kafka_definitions import FieldDefinition, RecordDefinition, of_release
from tests.support.brokers.jar_sets import RELEASES, SCALA_VERSION

TOPICS = {
    "group": "__consumer_offsets",
    "transaction": "__transaction_state",
    "share": "__share_group_state",
}
"""The topic that each coordinator writes."""


def cases() -> list[tuple[str, str]]:
    """Each coordinator and release; 3.9 has no share coordinator."""
    return [
        (coordinator, release)
        for coordinator in TOPICS
        for release in RELEASES
        if (coordinator, release) != ("share", SCALA_VERSION)
    ]


def table_lines() -> Iterator[str]:
    """The versions of each value by release, and the fields that are new in a release."""
    yield f"| topic | type | name | {' | '.join(RELEASES)} |"
    yield f"|{'---|' * (3 + len(RELEASES))}"
    for coordinator, topic in TOPICS.items():
        definition_by_release = {
            (release, definition.record_type): definition
            for of_coordinator, release in cases()
            if of_coordinator == coordinator
            for definition in of_release(coordinator, release)
        }
        for number in sorted({number for _, number in definition_by_release}):
            newest = next(
                definition_by_release[r, number]
                for r in reversed(RELEASES)
                if (r, number) in definition_by_release
            )
            cells = _cells([definition_by_release.get((release, number)) for release in RELEASES])
            yield f"| `{topic}` | {number} | {newest.name} | {' | '.join(cells)} |"


def _cells(definitions: list[RecordDefinition | None]) -> Iterator[str]:
    before: RecordDefinition | None = None
    for definition in definitions:
        if definition is None:
            yield ""
            continue
        versions = [str(min(definition.values)), str(max(definition.values))]
        new = set() if before is None else _fields(definition) - _fields(before)
        names = {path.rpartition(".")[2] for path in new if path.rpartition(".")[0] not in new}
        yield ", ".join(["-".join(dict.fromkeys(versions)), *(f"+{n}" for n in sorted(names))])
        before = definition


def _fields(definition: RecordDefinition) -> set[str]:
    return {name for fields in definition.values.values() for name in paths(fields)}


def paths(fields: Sequence[FieldDefinition | Field]) -> Iterator[str]:
    """The fields with those of their structs, each as a path."""
    for field in fields:
        yield field.name
        yield from (f"{field.name}.{path}" for path in paths(field.fields))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table_lines())
