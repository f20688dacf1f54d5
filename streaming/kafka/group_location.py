"""The location of a group: its log partition, that partition's leader, and its coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator_state.replay.partitioner import partition_for
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.fetch import LogClient
from streaming.kafka.group_admin import GroupAdmin


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLocation:
    """`leader` and `coordinator` are broker ids; they differ only while leadership moves."""

    log_partition: int
    log_partitions: int
    leader: int
    coordinator: int
    host: str
    port: int


def locate_group(
    group_id: str, bootstrap_servers: str, kafka: Mapping[str, str] | None = None
) -> GroupLocation:
    """Ask the cluster for the topic's partitions and for the group's coordinator.

    Raises:
        ConfigurationError: no broker at the address, no topic yet, or no authorisation.
    """
    config = kafka_client_config(kafka or {})
    with (
        LogClient(bootstrap_servers, config) as log,
        GroupAdmin(bootstrap_servers, config) as admin,
    ):
        leaders = log.describe().leaders
        log_partition = partition_for(group_id, len(leaders))
        coordinator = admin.find_coordinator(group_id)
        return GroupLocation(
            log_partition=log_partition,
            log_partitions=len(leaders),
            leader=leaders[log_partition][0],
            coordinator=coordinator.node_id,
            host=coordinator.host,
            port=coordinator.port,
        )
