"""The table of record types by release in docs/replay.md, made from Kafka's message definitions.

`python -m tests.golden.record_type_table` prints it; `test_kafka_definitions.py` compares it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

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
        found = {
            (release, one.record_type): one
            for of_coordinator, release in cases()
            if of_coordinator == coordinator
            for one in of_release(coordinator, release)
        }
        for number in sorted({number for _, number in found}):
            newest = next(found[r, number] for r in reversed(RELEASES) if (r, number) in found)
            cells = _cells([found.get((release, number)) for release in RELEASES])
            yield f"| `{topic}` | {number} | {newest.name} | {' | '.join(cells)} |"


def _cells(definitions: list[RecordDefinition | None]) -> Iterator[str]:
    before: RecordDefinition | None = None
    for one in definitions:
        if one is None:
            yield ""
            continue
        versions = [str(min(one.values)), str(max(one.values))]
        new = set() if before is None else _fields(one) - _fields(before)
        names = {path.rpartition(".")[2] for path in new if path.rpartition(".")[0] not in new}
        yield ", ".join(["-".join(dict.fromkeys(versions)), *(f"+{n}" for n in sorted(names))])
        before = one


def _fields(one: RecordDefinition) -> set[str]:
    return {name for fields in one.values.values() for name in paths(fields)}


def paths(fields: tuple[FieldDefinition, ...]) -> Iterator[str]:
    """The fields with those of their structs, each as a path."""
    for field in fields:
        yield field.name
        yield from (f"{field.name}.{path}" for path in paths(field.fields))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table_lines())
