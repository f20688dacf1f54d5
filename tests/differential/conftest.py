"""The brokers of this folder: one of each loader."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from streaming.jvm.jars import KAFKA_VERSION
from tests.differential.broker_round import BrokerRounds
from tests.support.brokers.jar_sets import SCALA_VERSION


@pytest.fixture(scope="session", params=[KAFKA_VERSION, SCALA_VERSION])
def rounds(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerRounds]:
    with BrokerRounds(request.param, tmp_path_factory.mktemp("differential") / "broker") as rounds:
        yield rounds
