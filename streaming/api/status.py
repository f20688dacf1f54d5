"""Clusters: how many groups have which status, and whether the tables are up to date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from coordinator_state.insight.group_status import Status
from streaming.api.endpoints import ClusterQuery, Clusters, Endpoint
from streaming.api.fields import described
from streaming.errors import ConfigurationError
from streaming.served.cluster import Cluster
from streaming.served.snapshot import counted
from streaming.tables.load_state import current_count


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The state of a cluster's tables; counts of records are sums over all log partitions."""

    __pydantic_config__ = described("load_progress")

    cluster: str
    """Name of the cluster."""
    fault: str | None = None
    """Reason why the tables cannot be read: all other values are then null."""
    cluster_id: str | None = None
    at: datetime | None = None
    """Moment of the answer."""
    notice: str | None = None
    """Warning that the tables are stale or still loading; null if they are current."""
    version: int | None = None
    """Version of `load_progress`: the number of the snapshot."""
    known_until: datetime | None = None
    """Time up to which the tables have every commit."""
    groups: int | None = None
    """Number of groups."""
    statuses: dict[Status, int] | None = None
    """Number of groups by status."""
    open_transactions: int | None = None
    """Number of open transactions with pending offsets."""
    log_partitions: int | None = None
    """Number of partitions of `__consumer_offsets`."""
    log_partitions_current: int | None = None
    """Number of partitions of `__consumer_offsets` that are loaded to their end."""
    records_read: int | None = None
    records_applied: int | None = None
    records_superseded: int | None = None
    records_ignored: int | None = None
    records_quarantined: int | None = None
    records_pending: int | None = None
    records_unaccounted: int | None = None


class ServerStatus(BaseModel):
    """The clusters of a server, or the one that the request names."""

    model_config = described()

    clusters: list[ClusterStatus]
    """State of each cluster."""


_SUMS = [
    *("records_read", "records_applied", "records_superseded", "records_ignored"),
    *("records_quarantined", "records_pending", "records_unaccounted"),
]


def get_status(clusters: Clusters, query: ClusterQuery) -> ServerStatus:
    """Groups by status, and the state of the tables, of each cluster."""
    named = [clusters.named(query.cluster)] if query.cluster else clusters.by_name.values()
    return ServerStatus(clusters=[_status(cluster, query) for cluster in named])


def _status(cluster: Cluster, query: ClusterQuery) -> ClusterStatus:
    at = query.moment
    try:
        snapshot = cluster.snapshot(at)
    except ConfigurationError as error:
        return ClusterStatus(cluster=cluster.name, fault=str(error))
    reader = snapshot.reader
    sums: dict[str, Any] = {
        name: sum(row[name] or 0 for row in snapshot.progress) for name in _SUMS
    }
    return ClusterStatus(
        cluster=cluster.name,
        cluster_id=reader.cluster_id,
        at=snapshot.at,
        notice=snapshot.notice,
        version=reader.version,
        known_until=snapshot.known_until,
        groups=snapshot.evaluation.statuses.num_rows,
        statuses={
            Status(status): number
            for status, number in counted(snapshot.evaluation.statuses["status"]).items()
        },
        open_transactions=len(snapshot.transactions),
        log_partitions=reader.log_partitions,
        log_partitions_current=current_count(reader.load_states),
        **sums,
    )


ENDPOINTS = (Endpoint("/status", get_status),)
