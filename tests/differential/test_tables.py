"""Random logs of a real broker through the whole query: what the tables say, the broker says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.jvm.jars import KAFKA_VERSION
from streaming.kafka.group_admin import GroupAdmin
from streaming.run.query import run_query
from streaming.run.settings import RunSettings
from streaming.tables.reader import TableReader
from streaming.verify.answer import Answers
from streaming.verify.table_answers import TableAnswers
from tests.differential.broker_round import BrokerRounds
from tests.differential.random_round import draw_round
from tests.support.logs.logs import segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.mark.parametrize("rounds", [KAFKA_VERSION], indirect=True)
def test_tables_of_random_logs_answer_as_the_broker(
    rounds: BrokerRounds, spark: SparkSession, tmp_path: Path
) -> None:
    seen: Counter[str] = Counter()
    tables = str(tmp_path / "tables")

    def answers(rounds: BrokerRounds, _expected: Answers) -> Answers:
        servers = rounds.broker.bootstrap_servers
        run_query(
            RunSettings(
                bootstrap_servers=servers,
                tables=tables,
                checkpoint=str(tmp_path / "checkpoint"),
                available_now=True,
                lag_interval="off",
            ),
            session=spark,
        )
        reader = TableReader(tables)
        assert reader.semantics == rounds.semantics.value
        found = TableAnswers(reader)
        with GroupAdmin(servers) as admin:
            told = found.answers(topic_names=admin.topic_names(found.topic_ids()))
        seen.update(key.kind for key in told)
        return told

    logs = {
        p: segment(log.events(p, rounds.topics, rounds.semantics))[0]
        for p, log in draw_round(2001).items()
    }
    result = rounds.run(logs, answers)

    assert result.differences == {}, result.differences
    assert min(seen[kind] for kind in ("group", "member", "offset", "pending")) > 10
