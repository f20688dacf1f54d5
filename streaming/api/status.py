"""Clusters: how many groups have which status, and whether the tables are up to date."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from coordinator_state.insight.group_status import Status
from streaming.api.answers import Part, columns
from streaming.api.operation import ClusterQuery, Clusters, operation
from streaming.errors import ConfigurationError
from streaming.served.cluster import Cluster
from streaming.served.snapshot import counted
from streaming.tables.load_state import current_count
from streaming.tables.rows import LoadProgressRow

_SUMS: Final = (
    *("records_read", "records_applied", "records_superseded", "records_ignored"),
    *("records_quarantined", "records_pending", "records_unaccounted"),
)


@columns(
    "load_progress", LoadProgressRow, "cluster", "fault", "cluster_id", *_SUMS, is_nullable=True
)
class ClusterStatus(Part):
    """The state of a cluster's tables; counts of records are sums over all log partitions."""

    cluster: str
    """Name of the cluster."""
    fault: str | None
    """Reason why the tables cannot be read: all other values are then null."""
    at: datetime | None
    """Moment of the answer."""
    notice: str | None
    """Warning that the tables are stale or still loading; null if they are current."""
    version: int | None
    """Version of `load_progress`: the number of the snapshot."""
    known_until: datetime | None
    """Time up to which the tables have every commit."""
    groups: int | None
    """Number of groups."""
    statuses: dict[Status, int] | None
    """Number of groups by status."""
    open_transactions: int | None
    """Number of open transactions with pending offsets."""
    log_partitions: int | None
    """Number of partitions of `__consumer_offsets`."""
    log_partitions_current: int | None
    """Number of partitions of `__consumer_offsets` that are loaded to their end."""


class ServerStatus(Part):
    """The clusters of a server, or the one that the request names."""

    clusters: list[ClusterStatus]
    """State of each cluster."""


@operation("/status")
def get_status(clusters: Clusters, query: ClusterQuery) -> ServerStatus:
    """Groups by status, and the state of the tables, of each cluster."""
    named = [clusters.named(query.cluster)] if query.cluster else clusters.by_name.values()
    return ServerStatus.model_validate(
        {"clusters": [_status(clusters, cluster, query) for cluster in named]}
    )


def _status(clusters: Clusters, cluster: Cluster, query: ClusterQuery) -> dict[str, Any]:
    known = {**dict.fromkeys(ClusterStatus.model_fields), "cluster": cluster.name}
    at = clusters.moment(query)
    try:
        snapshot = cluster.snapshot(at)
    except ConfigurationError as error:
        return known | {"fault": str(error)}
    reader = snapshot.reader
    return known | {
        "cluster_id": reader.cluster_id,
        "at": snapshot.at,
        "notice": snapshot.notice,
        "version": reader.version,
        "known_until": snapshot.known_until,
        "groups": snapshot.evaluation.statuses.num_rows,
        "statuses": counted(snapshot.evaluation.statuses["status"]),
        "open_transactions": len(snapshot.transactions),
        "log_partitions": reader.log_partitions,
        "log_partitions_current": current_count(reader.load_states),
        **{name: sum(row[name] or 0 for row in snapshot.progress) for name in _SUMS},
    }
