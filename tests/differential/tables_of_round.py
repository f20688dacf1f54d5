"""The tables that a query makes of the logs of a round, for the broker to be compared with."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from streaming.kafka.group_admin import GroupAdmin
from streaming.run.query import run_query
from streaming.run.session import EngineName
from streaming.run.settings import RunSettings
from streaming.tables.reader import TableReader
from streaming.verify.answer import Answers
from streaming.verify.table_answers import TableAnswers
from tests.differential.broker_round import BrokerRounds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class TablesOfRound:
    """Loads the log of the broker into new tables in each round; answers from them.

    `seen` counts the answers by kind.
    """

    session: SparkSession
    engine: EngineName
    seen: Counter[str] = field(default_factory=Counter)

    def __call__(self, rounds: BrokerRounds, _expected: Answers) -> Answers:
        servers = rounds.broker.bootstrap_servers
        with tempfile.TemporaryDirectory(prefix="differential-tables-") as folder:
            tables = f"{folder}/tables"
            run_query(
                RunSettings(
                    bootstrap_servers=servers,
                    tables=tables,
                    checkpoint=f"{folder}/checkpoint",
                    available_now=True,
                    lag_interval="off",
                    engine=self.engine,
                ),
                session=self.session,
            )
            reader = TableReader(tables)
            assert reader.semantics == rounds.rules.semantics.value
            assert reader.release is rounds.rules.release
            table_answers = TableAnswers(reader)
            with GroupAdmin(servers) as admin:
                answers = table_answers.answers(
                    topic_names=admin.topic_names(table_answers.topic_ids())
                )
        self.seen.update(key.kind for key in answers)
        return answers
