"""The explanation and the story of a group from its tables, and the text of an explanation."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from coordinator_state.insight.evidence import Evidence
from coordinator_state.insight.explanation import Explanation, explain
from coordinator_state.insight.story import Story, story_of
from streaming.lag.gathered_facts import WINDOW, group_facts
from streaming.tables.reader import TableReader


def explained(
    reader: TableReader, group_id: str, *, at: datetime | None = None
) -> Explanation | None:
    """Explain a group of a snapshot, by default as of its moment; None for an unknown group.

    Raises:
        ConfigurationError: the tables cannot be read.
    """
    facts = group_facts(reader, group_id, at=at)
    return None if facts is None else explain(facts)


def group_story(reader: TableReader, group_id: str, *, at: datetime | None = None) -> Story | None:
    """The story of a group of a snapshot, by default as of its moment; None for an unknown group.

    It reads the history of this group once, and rebuilds earlier states of this group only. That
    takes half the time.

    Raises:
        ConfigurationError: the tables cannot be read.
    """
    moment = at or reader.moment
    group_reader = reader.with_history(since=moment - WINDOW, group_ids=[group_id])
    facts = group_facts(group_reader, group_id, at=moment)
    return None if facts is None else story_of(facts, explain(facts))


def explanation_text(explanation: Explanation) -> str:
    """The explanation as lines for a terminal."""
    lines = [f"{explanation.group_id}  {explanation.headline}"]
    for number, evidence in enumerate(explanation.evidence, 1):
        lines.append(f"{number}. {evidence.cause.value}: {evidence.text}")
        lines += [f"   {line}" for line in _citations(evidence)]
    return "\n".join(lines)


def _citations(evidence: Evidence) -> Iterator[str]:
    if evidence.record_ids:
        log_partition, _ = evidence.record_ids[0]
        offsets = ", ".join(str(record_offset) for _, record_offset in evidence.record_ids)
        noun = "record offset" if len(evidence.record_ids) == 1 else "record offsets"
        yield f"log partition {log_partition}, {noun} {offsets}"
    elif evidence.sql is not None:
        yield evidence.sql
    yield from evidence.commands


def explanation_fields(explanation: Explanation) -> dict[str, Any]:
    """The explanation as one JSON object.

    >>> at = datetime(2026, 11, 21)
    >>> explanation = Explanation(
    ...     group_id="g", at=at, status="OK", reason="", lag=3, is_behind=True,
    ...     behind_since=None, fallen_from=923.48, evidence=[],
    ... )
    >>> explanation_fields(explanation)["fallen_from"]
    923
    """
    onset, fallen_from = explanation.behind_since, explanation.fallen_from
    return {
        "group_id": explanation.group_id,
        "at": explanation.at,
        "status": explanation.status,
        "reason": explanation.reason,
        "lag": explanation.lag,
        "is_behind": explanation.is_behind,
        "behind_since": None if onset is None else onset.at,
        # A lag between two samples has a fraction.
        "fallen_from": None if fallen_from is None else round(fallen_from),
        "behind_for_longer": None if onset is None else onset.is_earlier,
        "evidence": [_fields(evidence) for evidence in explanation.evidence],
    }


def _fields(evidence: Evidence) -> dict[str, Any]:
    return {
        "cause": evidence.cause.value,
        "text": evidence.text,
        "at": evidence.at,
        "last_at": evidence.last_at,
        "record_ids": [
            {"log_partition": log_partition, "record_offset": record_offset}
            for log_partition, record_offset in evidence.record_ids
        ],
        "sql": evidence.sql,
        "commands": list(evidence.commands),
    }
