"""The tool `explain_group`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coordinator_state.insight import evidence
from streaming.agents.answer import Answer, At, ClusterName, Part, RecordId, Text, Time
from streaming.agents.clusters import Clusters
from streaming.errors import ConfigurationError
from streaming.views.diagnosis import explained, explanation_fields
from streaming.views.text import from_printable
from streaming.views.unknown_group import unknown_group


class Evidence(Part):
    """One line of evidence."""

    cause: evidence.Cause
    """The resource docs://causes has the meaning of each cause."""
    text: Text
    at: Time | None
    """When it began."""
    last_at: Time | None
    """When it was last seen."""
    record_ids: list[RecordId]
    """The records in `__consumer_offsets` that show it."""
    sql: Text | None
    """A query for the tool sql that shows it."""
    commands: list[str]
    """Kafka commands with which a person can inspect or end it. This server runs none of them."""


class GroupExplanation(Answer):
    """Why a group is behind, or that it is not."""

    group_id: Text
    headline: Text
    """The answer in one sentence."""
    status: str
    reason: Text
    lag: int | None
    is_behind: bool
    behind_since: Time | None
    """When the lag began to grow; null if unknown or not behind."""
    behind_for_longer: bool | None
    """Whether the lag is older than the hour that is searched."""
    fallen_from: float | None
    """The greatest lag since then, if the lag has fallen."""
    evidence: list[Evidence]
    """Up to six lines, the most direct cause first."""


def explain_group(
    clusters: Clusters,
    group: Annotated[str, Field(description="The group id, as answers of this server show it.")],
    at: At = "",
    cluster: ClusterName = "",
) -> GroupExplanation:
    """Explain why one consumer group is behind, since when, and what changed just before.

    The first evidence is the most direct cause; each names its records in `__consumer_offsets`.
    Looks at the hour before `at`: members, rebalances, deploys, moved offsets, transactions,
    commits, rates. Also answers for a group that was deleted within that hour, and for a healthy
    group (caught_up).
    """
    opened = clusters.opened(cluster, at)
    reader, group_id = opened.snapshot.reader, from_printable(group)
    explanation = explained(reader, group_id, at=opened.snapshot.at)
    if explanation is None:
        unknown = unknown_group(
            reader,
            group_id,
            all_groups="find_groups with status all",
            events=f"sql: FROM group_events WHERE group_id = '{group}'",
        )
        raise ConfigurationError(unknown or f"group {group} had no events in the hour before `at`")
    fields = {**explanation_fields(explanation), "headline": explanation.headline}
    return GroupExplanation.model_validate(fields | opened.fields)
