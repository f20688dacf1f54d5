"""The time for which a cluster keeps committed offsets and tombstones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.kafka.group_admin import GroupAdmin
from streaming.tables.schemas import DEFAULT_OFFSETS_RETENTION_MS

logger = logging.getLogger(__name__)

_DEFAULT_DELETE_RETENTION_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Retentions:
    """`offsets.retention.minutes`, and `delete.retention.ms` of `__consumer_offsets`."""

    offsets_retention_ms: int
    delete_retention_ms: int

    @classmethod
    def ask(cls, bootstrap_servers: str, kafka_config: Mapping[str, Any]) -> Retentions:
        """Ask the cluster; a setting that cannot be read has Kafka's default."""
        with GroupAdmin(bootstrap_servers, kafka_config) as admin:
            return cls(
                offsets_retention_ms=_asked(
                    admin.offsets_retention_ms, DEFAULT_OFFSETS_RETENTION_MS, "7 days"
                ),
                delete_retention_ms=delete_retention_ms(admin, OFFSETS_TOPIC),
            )


def delete_retention_ms(admin: GroupAdmin, topic: str) -> int:
    """The `delete.retention.ms` of a topic, or Kafka's default if it cannot be read."""
    return _asked(
        lambda: admin.delete_retention_ms(topic), _DEFAULT_DELETE_RETENTION_MS, "24 hours"
    )


def _asked(ask: Callable[[], int], default_ms: int, default_text: str) -> int:
    try:
        return ask()
    except (ConfigurationError, TimeoutError) as error:
        logger.info("%(error)s; assuming %(default)s", {"error": error, "default": default_text})
        return default_ms
