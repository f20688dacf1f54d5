"""The rules of a cluster's loader: semantics and release, by the versions of its brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import NEWEST_RELEASE, Release
from streaming.kafka.group_admin import GroupAdmin

_NEW_COORDINATOR_FEATURE: Final = "group.version"
_FIRST_VERSION_WITH_NEW_COORDINATOR: Final = (4, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoaderRules:
    """The rules by which coordinators load the log; `release` has no meaning under `scala`."""

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

    @classmethod
    def ask(
        cls, bootstrap_servers: str, kafka_config: Mapping[str, Any], semantics: str
    ) -> LoaderRules:
        """Ask the cluster for its release, and with `auto` for the semantics.

        Kafka 4 has only the new coordinator, 3.x has it with `group.version` 1. During a rolling
        upgrade the rules are those of the oldest broker. A broker's version is derived from its
        ApiVersions answer.

        Source: KIP-848; core/src/main/scala/kafka/server/KafkaConfig.scala
        (`isNewGroupCoordinatorEnabled`) at 3.9.1.

        Raises:
            ConfigurationError: no broker at the address, or no authorisation.
            TimeoutError: a broker does not answer.
        """
        if semantics == Semantics.SCALA.value:
            return cls(semantics=Semantics.SCALA)
        with GroupAdmin(bootstrap_servers, kafka_config) as admin:
            oldest = min(admin.broker_versions(), key=lambda broker: broker.version)
        has_new_coordinator = (
            oldest.version >= _FIRST_VERSION_WITH_NEW_COORDINATOR
            or oldest.features.get(_NEW_COORDINATOR_FEATURE, 0) >= 1
        )
        if semantics == "auto" and not has_new_coordinator:
            return cls(semantics=Semantics.SCALA)
        return cls(semantics=Semantics.COORDINATOR, release=Release.of(oldest.version))
