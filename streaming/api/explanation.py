"""Why a group is behind: evidence, with records and commands."""

from __future__ import annotations

from datetime import datetime

from starlette.exceptions import HTTPException

from coordinator_state.insight.group_status import Status
from streaming.api.answers import Answer, Part, RecordId, columns
from streaming.api.operation import Clusters, GroupQuery, operation
from streaming.tables.rows import StatusRow
from streaming.views.diagnosis import explained, explanation_fields


class Evidence(Part):
    """A cause, and the records or the query that show it."""

    cause: str
    """Name of the cause."""
    text: str
    """Finding in one sentence, with numbers."""
    at: datetime | None
    """Time of the finding, or of its first event; null if it has none."""
    last_at: datetime | None
    """Time of its last event; null if there is only one."""
    record_ids: list[RecordId]
    """Records that show it."""
    sql: str | None
    """SELECT that shows it, for `coordinator-state sql`; null if records show it."""
    commands: list[str]
    """Commands of Kafka's tools that help, such as to abort a transaction."""


@columns("group_status", StatusRow, "group_id")
class GroupExplanation(Answer):
    """Why a group is behind: evidence, the most direct cause first."""

    status: Status | None
    reason: str | None
    lag: int | None
    is_behind: bool
    """Whether the group is behind."""
    behind_since: datetime | None
    """Earliest known time at which the group was behind; null if not behind, or unknown."""
    fallen_from: int | None
    """Greatest lag since then, if the lag has shrunk since; else null."""
    behind_for_longer: bool | None
    """Whether the group has been behind since before `behind_since`; null without that time."""
    evidence: list[Evidence]
    """Evidence, the most direct cause first."""


class GroupExplanationWithHeadline(GroupExplanation):
    """Why a group is behind, or that it is not."""

    headline: str
    """The answer in one sentence."""


@operation("/groups/{group}/explanation", is_costly=True)
def explain_group(clusters: Clusters, query: GroupQuery) -> GroupExplanation:
    """Why a group is behind, since when, and what changed just before."""
    shown = clusters.opened(query)
    shown.require_group(query.group)
    explanation = explained(shown.reader, query.group, at=shown.at)
    if explanation is None:
        raise AssertionError(f"no facts about the known group {query.group!r}")
    return shown.answer(GroupExplanation, **explanation_fields(explanation))


@operation(tool="explain_group")
def explain_group_or_its_end(clusters: Clusters, query: GroupQuery) -> GroupExplanationWithHeadline:
    """Explain why one consumer group is behind, since when, and what changed just before.

    The first evidence is the most direct cause; each names its records in `__consumer_offsets`.
    Looks at the hour before `at`: members, rebalances, deploys, moved offsets, transactions,
    commits, rates. Also answers for a group that was deleted within that hour, and for a healthy
    group (caught_up).
    """
    shown = clusters.opened(query)
    explanation = explained(shown.reader, query.group, at=shown.at)
    if explanation is None:
        shown.require_group(query.group)
        raise HTTPException(404, f"group {query.group} had no events in the hour before `at`")
    return shown.answer(
        GroupExplanationWithHeadline,
        headline=explanation.headline,
        **explanation_fields(explanation),
    )
