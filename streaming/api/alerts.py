"""The alerts of `alert run`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from streaming.api.cursors import page_of
from streaming.api.endpoints import Answer, Clusters, Endpoint, PagedQuery
from streaming.api.fields import described
from streaming.errors import ConfigurationError
from streaming.tables.rows import AlertRow
from streaming.views.lists import alerts


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert(AlertRow):
    """An alert: a rule, the group or partition that breaks it, and its state."""

    __pydantic_config__ = described("alerts")

    state: Literal["firing", "pending", "resolved"]
    sent: Annotated[list[Any], Field(exclude=True)]
    condition_ended_at: Annotated[datetime | None, Field(exclude=True)]


class AlertPage(Answer):
    """A page of alerts, by rule and group."""

    items: list[Alert]
    """Alerts of this page."""
    next_cursor: str | None
    """Value of `cursor` for the next page; null on the last page."""


class AlertsQuery(PagedQuery):
    """Parameters of the list of alerts."""

    state: Annotated[
        list[Literal["firing", "pending", "resolved"]],
        Field(description="States of alerts; any of them.", default_factory=list),
    ]
    group: Annotated[list[str], Field(description="Group ids; any of them.", default_factory=list)]


def list_alerts(clusters: Clusters, query: AlertsQuery) -> AlertPage:
    """Current alerts of `alert run`: the table has no history."""
    if query.at:
        raise ConfigurationError("at: alerts are always current; omit it")
    shown = clusters.opened(query)
    selected = alerts(states=query.state, group_ids=query.group)
    fields = page_of(shown.snapshot, selected, query.cursor, query.limit)
    return AlertPage.model_validate({**shown.envelope, **fields})


ENDPOINTS = (Endpoint("/alerts", list_alerts),)
