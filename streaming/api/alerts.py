"""The alerts of `alert run`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streaming.api.answers import Page, Part, columns
from streaming.api.operation import Clusters, PagedQuery, operation
from streaming.errors import ConfigurationError
from streaming.tables.rows import AlertRow
from streaming.views.lists import alerts

AlertState = Literal["firing", "pending", "resolved"]


@columns("alerts", AlertRow, without=("sent", "condition_ended_at"))
class Alert(Part):
    """An alert: a rule, the group or partition that breaks it, and its state."""

    state: AlertState


class AlertPage(Page[Alert]):
    """A page of alerts, by rule and group."""


class AlertsQuery(PagedQuery):
    """The parameters of the list of alerts."""

    state: list[AlertState] = Field(default_factory=list)
    """States of alerts; any of them."""
    group: list[str] = Field(default_factory=list)
    """Group ids; any of them."""


@operation("/alerts")
def list_alerts(clusters: Clusters, query: AlertsQuery) -> AlertPage:
    """Current alerts of `alert run`: the table has no history."""
    if query.at:
        raise ConfigurationError("at: alerts are always current; omit it")
    shown = clusters.opened(query)
    selected = alerts(states=query.state, group_ids=query.group)
    return shown.page(AlertPage, query, selected)
