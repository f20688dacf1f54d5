"""The loader's rules of a cluster, by the versions that its brokers tell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from coordinator_state.replay.offsets import Semantics
from coordinator_state.replay.releases import Release
from streaming.errors import ConfigurationError
from streaming.kafka import loader_rules
from streaming.kafka.group_admin import BrokerVersion
from streaming.kafka.loader_rules import ClusterRules, LoaderRules


class Brokers:
    """Brokers in place of those that a client asks: their versions, or an error."""

    def __init__(self, *versions: tuple[int, ...], group_version: int = 0) -> None:
        self.versions: list[tuple[int, ...]] = list(versions)
        self.group_version = group_version
        self.error: Exception | None = None

    def broker_versions(self) -> list[BrokerVersion]:
        if self.error is not None:
            raise self.error
        features = {"group.version": self.group_version}
        return [BrokerVersion(version=version, features=features) for version in self.versions]


@contextmanager
def asked(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    @contextmanager
    def admin(*_arguments: Any, **_options: Any) -> Iterator[Brokers]:
        yield brokers

    monkeypatch.setattr(loader_rules, "GroupAdmin", admin)
    yield


@pytest.mark.parametrize(
    ("brokers", "semantics", "rules"),
    [
        (Brokers((4, 4), (4, 2), (4, 3)), "auto", "coordinator of Kafka 4.2"),
        (Brokers((4, 4)), "coordinator", "coordinator of Kafka 4.4"),
        (Brokers((3, 9)), "auto", "scala"),
        (Brokers((3, 9), group_version=1), "auto", "coordinator of Kafka 4.0"),
        (Brokers((3, 9), (4, 0)), "auto", "scala"),
        (Brokers((4, 4)), "scala", "scala"),
    ],
)
def test_the_oldest_broker_decides(
    brokers: Brokers, semantics: str, rules: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asked(brokers, monkeypatch):
        assert str(ClusterRules("broker:9092", {}, semantics).known) == rules


@pytest.mark.parametrize("error", [ConfigurationError("no broker"), TimeoutError("no answer")])
def test_rules_stay_while_no_broker_answers(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = Brokers((4, 2))
    with asked(brokers, monkeypatch):
        rules = ClusterRules("broker:9092", {}, "auto")
        brokers.error = error
        assert rules.refresh() == LoaderRules(
            semantics=Semantics.COORDINATOR, release=Release.KAFKA_4_2
        )
        brokers.error, brokers.versions = None, [(4, 4)]
        assert rules.refresh().release is Release.KAFKA_4_4
        brokers.error = error
        with pytest.raises(type(error)):
            ClusterRules("broker:9092", {}, "auto")
