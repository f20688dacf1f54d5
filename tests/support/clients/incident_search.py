"""How a scripted agent looks for incidents: the same steps whatever the incident is.

It knows nothing of the tables but what the tools of the server answer. All of its questions are
about the moment of the first answer.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from tests.support.clients.agent import Agent

_OF_OFFSETS: Final = {
    *("offset_rewind", "offset_reset", "offset_deleted", "offset_expired", "group_deleted"),
}
_WITHOUT_EVIDENCE: Final = {"caught_up", "status"}
"""Nothing happened, or nothing is known yet."""
_RECORDS: Final = """
SELECT DISTINCT log_partition, record_offset
FROM (
  SELECT log_partition, record_offset FROM offset_commits
  UNION ALL SELECT log_partition, record_offset FROM pending_offsets
  UNION ALL SELECT log_partition, record_offset FROM group_offsets
  UNION ALL SELECT log_partition, record_offset FROM group_events
  UNION ALL SELECT log_partition, record_offset FROM coordinator_records
)
WHERE (log_partition, record_offset) IN ({})
"""


class Ask(Protocol):
    """Calls a tool about one moment."""

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]: ...


class Finding(NamedTuple):
    """The cause of an incident, and the records that show it."""

    cause: str
    record_ids: frozenset[tuple[int, int]]
    text: str


def findings(agent: Agent) -> dict[str, Finding]:
    """The cause of what happened to each suspect group; of every group if none is suspect.

    The evidence of each is checked: its records are in the tables, its query has rows, and the
    tools for moved offsets and for transactions know the group, too.
    """
    ask = partial(agent.call, at=agent.call("find_groups", limit=1)["at"])
    finding_by_group = {}
    for group in _suspects(ask) or _groups(ask, status="all"):
        first = ask("explain_group", group=group)["evidence"][0]
        _require_evidence(ask, first)
        _require_witness(ask, group, first["cause"])
        finding_by_group[group] = Finding(first["cause"], _pairs(first), first["text"])
    return finding_by_group


def _suspects(ask: Ask) -> list[str]:
    """The groups in trouble, those whose offsets were moved, and those behind a transaction."""
    transactions = ask("transactions", limit=100)
    others = [
        *ask("who_moved_offsets", limit=100)["moves"],
        *transactions["open"],
        *transactions["aborted"],
    ]
    return list(dict.fromkeys([*_groups(ask), *(entry["group_id"] for entry in others)]))


def _groups(ask: Ask, **selection: str) -> list[str]:
    return [group["group_id"] for group in ask("find_groups", limit=100, **selection)["groups"]]


def _require_evidence(ask: Ask, evidence: dict[str, Any]) -> None:
    """The records that evidence names exist, or its query has rows."""
    pairs = _pairs(evidence)
    if pairs:
        query = _RECORDS.format(", ".join(map(str, sorted(pairs))))
        assert {tuple(row) for row in ask("sql", query=query)["rows"]} == pairs, evidence
    elif evidence["sql"] is not None:
        assert ask("sql", query=evidence["sql"])["rows"], evidence
    else:
        assert evidence["cause"] in _WITHOUT_EVIDENCE, evidence


def _require_witness(ask: Ask, group: str, cause: str) -> None:
    """Another tool knows of the cause, too."""
    if cause in _OF_OFFSETS:
        assert ask("who_moved_offsets", group=group)["moves"]
    elif cause == "open_transaction":
        assert ask("transactions", group=group)["open"]
    elif cause == "aborted_transactions":
        assert ask("transactions", group=group)["aborted"]


def _pairs(evidence: dict[str, Any]) -> frozenset[tuple[int, int]]:
    return frozenset(
        (record_id["log_partition"], record_id["record_offset"])
        for record_id in evidence["record_ids"]
    )
