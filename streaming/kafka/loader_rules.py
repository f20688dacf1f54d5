"""The rules of a cluster's loader: semantics and release, by the versions of its brokers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from streaming.errors import ConfigurationError
from streaming.kafka.group_admin import GroupAdmin

logger = logging.getLogger(__name__)

_NEW_COORDINATOR_FEATURE: Final = "group.version"
_FIRST_VERSION_WITH_NEW_COORDINATOR: Final = (4, 0)
_REFRESH_TIMEOUT_MS: Final = 1_000
"""For a caller that asks again later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderRules:
    """The rules by which coordinators load the log.

    Under `scala` all releases have the same rules, and `release` is ignored.
    """

    semantics: Semantics
    release: Release = NEWEST_RELEASE

    def __str__(self) -> str:
        if self.semantics is Semantics.SCALA:
            return self.semantics.value
        return f"{self.semantics.value} of Kafka {self.release}"

    def differ_from(self, other: LoaderRules) -> bool:
        """Whether a log may load to other groups or offsets."""
        if self.semantics is Semantics.SCALA:
            return other.semantics is not Semantics.SCALA
        return self != other


class ClusterRules:
    """The loader's rules of a cluster, which an upgrade of its brokers may change.

    Kafka 4 has only the new coordinator, 3.x has it with `group.version` 1. If brokers have
    different versions, as in a rolling upgrade, the rules are those of the oldest broker that
    answers. A broker's version is derived from its ApiVersions answer.

    Args:
        bootstrap_servers: HOST:PORT, several separated by commas.
        kafka_config: keyword arguments for kafka-python, see `kafka_client_config`.
        semantics: `auto`, or the semantics whatever the cluster has.

    Attributes:
        known: the rules by the last answer.

    Source: KIP-848; core/src/main/scala/kafka/server/KafkaConfig.scala
    (`isNewGroupCoordinatorEnabled`) at 3.9.1.

    Raises:
        ConfigurationError: no broker at the address, or no authorisation.
        TimeoutError: no broker answers.
    """

    def __init__(
        self, bootstrap_servers: str, kafka_config: Mapping[str, Any], semantics: str
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._kafka_config = kafka_config
        self._semantics = semantics
        self.known = self._ask()

    def refresh(self) -> LoaderRules:
        """Ask once more; without an answer the rules stay."""
        try:
            self.known = self._ask(retry_timeout_ms=_REFRESH_TIMEOUT_MS, has_worked=True)
        except (ConfigurationError, TimeoutError) as error:
            logger.debug("cannot ask for the versions of the brokers: %(error)s", {"error": error})
        return self.known

    def _ask(self, **retries: Any) -> LoaderRules:
        if self._semantics == Semantics.SCALA.value:
            return LoaderRules(semantics=Semantics.SCALA)
        with GroupAdmin(self._bootstrap_servers, self._kafka_config, **retries) as admin:
            oldest = min(admin.broker_versions(), key=lambda broker: broker.version)
        has_new_coordinator = (
            oldest.version >= _FIRST_VERSION_WITH_NEW_COORDINATOR
            or oldest.features.get(_NEW_COORDINATOR_FEATURE, 0) >= 1
        )
        if self._semantics == "auto" and not has_new_coordinator:
            return LoaderRules(semantics=Semantics.SCALA)
        return LoaderRules(semantics=Semantics.COORDINATOR, release=Release.of(oldest.version))
