"""The clusters of scenarios, as one cluster in virtual time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from streaming.kafka.partition_offsets import LogOffsets
from streaming.local.scenario.brokers import Brokers
from streaming.local.scenario.group_clients import GroupClients
from streaming.local.scenario.scenario import Scenario
from streaming.local.scenario.topic_logs import TopicLogs


class Cluster:
    """The brokers and the clients of scenarios that have the same `run`.

    Attributes:
        brokers: the brokers.
        names: the name in the cluster of each group, by scenario and group. The names of several
            scenarios are made distinct by a prefix.
    """

    def __init__(self, scenarios: Sequence[Scenario], begin: datetime) -> None:
        self.brokers = Brokers(scenarios[0].run, begin)
        self.names: dict[tuple[str, str], str] = {}
        self._groups: list[GroupClients] = []
        for scenario in scenarios:
            self._add(scenario, f"{scenario.name}." if len(scenarios) > 1 else "")
        self._read = {topic for group in self._groups for topic in group.members.topics}

    def _add(self, scenario: Scenario, prefix: str) -> None:
        names = {name: prefix + name for name in scenario.topics}
        for name, topic in scenario.topics.items():
            self.brokers.topics[names[name]] = TopicLogs(names[name], topic)
        for name, group in scenario.groups.items():
            self.names[scenario.name, name] = prefix + name
            self._groups.append(GroupClients(self.brokers, prefix + name, group, names))

    @property
    def now(self) -> datetime:
        """The time by the clock of `run`."""
        return self.brokers.now

    @property
    def is_run_up(self) -> bool:
        """Whether `run` writes."""
        return not any(down.has(self.brokers.seconds) for down in self.brokers.run.down)

    def tick(self, t: int) -> None:
        """Everything that happens at a moment, in seconds since the begin."""
        self.brokers.tick(t)
        for group in self._groups:
            group.tick(t)

    def sample(self) -> list[LogOffsets]:
        """The offsets of all logs of topics that groups read, and of the internal topics."""
        return self.brokers.sample(self._read)
