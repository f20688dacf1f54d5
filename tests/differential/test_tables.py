"""Random logs of a real broker through the whole query: what the tables say, the broker says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from streaming.jvm.jars import KAFKA_VERSION
from streaming.run.session import EngineName
from tests.differential.broker_round import BrokerRounds
from tests.differential.random_round import draw_round
from tests.differential.tables_of_round import TablesOfRound
from tests.support.logs.logs import segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("engine", ["driver", "spark"])
@pytest.mark.parametrize("rounds", [KAFKA_VERSION], indirect=True)
def test_tables_of_random_logs_answer_as_the_broker(
    rounds: BrokerRounds, spark: SparkSession, engine: EngineName
) -> None:
    tables = TablesOfRound(spark, engine)
    logs = {
        p: segment(log.events(p, rounds.topics, rounds.rules))[0]
        for p, log in draw_round(2001).items()
    }
    result = rounds.run(logs, tables)

    assert result.differences == {}, result.differences
    assert min(tables.seen[kind] for kind in ("group", "member", "offset", "pending")) > 10
