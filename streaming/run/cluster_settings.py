"""The settings of a cluster that limit times in the tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from coordinator_state.insight.group_status import StatusRules
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.kafka.group_admin import GroupAdmin
from streaming.tables.schemas import DEFAULT_OFFSETS_RETENTION_MS

logger = logging.getLogger(__name__)

_DEFAULT_DELETE_RETENTION_MS: Final = 24 * 60 * 60 * 1000
_DEFAULT_RULES: Final = StatusRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """The settings of a cluster that limit times in the tables.

    Attributes:
        offsets_retention_ms: `offsets.retention.minutes`.
        delete_retention_ms: `delete.retention.ms` of `__consumer_offsets`.
        transaction_max_timeout_ms: `transaction.max.timeout.ms`.
    """

    offsets_retention_ms: int
    delete_retention_ms: int
    transaction_max_timeout_ms: int

    @classmethod
    def ask(cls, bootstrap_servers: str, kafka_config: Mapping[str, Any]) -> ClusterSettings:
        """Ask the cluster; a setting that cannot be read has Kafka's default."""
        with GroupAdmin(bootstrap_servers, kafka_config) as admin:
            return cls(
                offsets_retention_ms=_asked(
                    admin.offsets_retention_ms, DEFAULT_OFFSETS_RETENTION_MS, "7 days"
                ),
                delete_retention_ms=delete_retention_ms(admin, OFFSETS_TOPIC),
                transaction_max_timeout_ms=_asked(
                    admin.transaction_max_timeout_ms, _DEFAULT_RULES.hanging_after_ms, "15 minutes"
                ),
            )

    def limits(self, rules: StatusRules) -> StatusRules:
        """Return the limits of the statuses; brokers set the time for `HANGING_TRANSACTION`.

        A limit that is not the default is the user's.
        """
        if rules.hanging_after_ms != _DEFAULT_RULES.hanging_after_ms:
            return rules
        return replace(rules, hanging_after_ms=self.transaction_max_timeout_ms)


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
