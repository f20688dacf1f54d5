"""Detection of the loader's rules (semantics) that a cluster's coordinator applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.admin import KafkaAdminClient

from coordinator_state.replay.offsets import Semantics

NEW_COORDINATOR_FEATURE = "group.version"
FIRST_VERSION_WITH_NEW_COORDINATOR = (4, 0)


def detect_semantics(bootstrap_servers: str, kafka_config: Mapping[str, Any]) -> Semantics:
    """Ask the cluster: Kafka 4 has only the new coordinator, 3.x has it with `group.version` 1.

    The broker's version is derived from its ApiVersions answer.

    Source: KIP-848; core/src/main/scala/kafka/server/KafkaConfig.scala
    (`isNewGroupCoordinatorEnabled`) at 3.9.1.
    """
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers, **kafka_config)
    try:
        version = admin.get_broker_version_data(_any_broker(admin)).broker_version
        if tuple(version[:2]) >= FIRST_VERSION_WITH_NEW_COORDINATOR:
            return Semantics.COORDINATOR
        finalized = admin.describe_features().get(NEW_COORDINATOR_FEATURE, {}).get("finalized")
        return Semantics.COORDINATOR if finalized and finalized[1] >= 1 else Semantics.SCALA
    finally:
        admin.close()


def _any_broker(admin: KafkaAdminClient) -> int:
    brokers = admin.describe_cluster()["brokers"]
    return int(brokers[0]["broker_id"])
