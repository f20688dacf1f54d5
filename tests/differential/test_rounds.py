"""A few rounds of random logs in front of real brokers; `make differential` runs many.

What the broker says, the reference loader says, and the tables of a whole query.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from coordinator_state.replay.expiry import expiry
from streaming.jvm.jars import KAFKA_VERSION
from streaming.run.session import EngineName
from tests.differential.broker_round import BrokerRounds
from tests.differential.log_file import read_kafka_version, read_logs
from tests.differential.random_round import draw_round, loaded
from tests.differential.tables_of_round import TablesOfRound
from tests.support.brokers.jar_sets import RELEASES, SCALA_VERSION
from tests.support.logs.logs import segment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)

RETENTION_MS = 7 * 86_400_000
EACH_RELEASE = [
    pytest.param(SCALA_VERSION, marks=pytest.mark.long),
    KAFKA_VERSION,
    *(
        pytest.param(release, marks=(pytest.mark.long, pytest.mark.release))
        for release in RELEASES
        if release not in (SCALA_VERSION, KAFKA_VERSION)
    ),
]
FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.fixture(scope="session", params=[KAFKA_VERSION, SCALA_VERSION])
def rounds(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerRounds]:
    """A broker of each loader."""
    with BrokerRounds(request.param, tmp_path_factory.mktemp("differential") / "broker") as rounds:
        yield rounds


def _segments(rounds: BrokerRounds, seed: int) -> dict[int, bytes]:
    return {
        p: segment(log.events(p, rounds.topics, rounds.rules))[0]
        for p, log in draw_round(seed).items()
    }


@pytest.mark.parametrize("rounds", EACH_RELEASE, indirect=True)
def test_a_broker_says_what_the_reference_loader_says(rounds: BrokerRounds) -> None:
    result = rounds.run(_segments(rounds, 1001))
    assert result.differences == {}, result.differences


@pytest.mark.long
@pytest.mark.parametrize("engine", ["driver", pytest.param("spark", marks=pytest.mark.release)])
@pytest.mark.parametrize("rounds", [KAFKA_VERSION], indirect=True)
def test_tables_of_random_logs_answer_as_the_broker(
    rounds: BrokerRounds, spark: SparkSession, engine: EngineName
) -> None:
    tables = TablesOfRound(spark, engine)
    result = rounds.run(_segments(rounds, 2001), tables)
    assert result.differences == {}, result.differences
    assert min(tables.seen[kind] for kind in ("group", "member", "offset", "pending")) > 10


@pytest.mark.release
@pytest.mark.long
def test_the_same_after_the_brokers_own_compaction(rounds: BrokerRounds) -> None:
    logs = _segments(rounds, 1003)
    compacted = rounds.compacted(logs)
    assert sum(map(len, compacted.values())) < sum(map(len, logs.values()))

    result = rounds.run(compacted)
    assert result.differences == {}, result.differences


@pytest.mark.long
def test_a_broker_expires_what_the_rules_say(rounds: BrokerRounds) -> None:
    """Commits of these logs are years old: what may expire does, at the first look."""
    logs = _segments(rounds, 1004)
    cleaned = rounds.cleaned_up(logs)
    kept = expired = 0
    for log_partition, raw in cleaned.items():
        before, after = (loaded(log, rounds.rules) for log in (logs[log_partition], raw))
        waiting = {key for keys in before.pending.values() for key in keys}
        for key, offset in before.offsets.items():
            group = before.groups.get(key.group_id)
            expected = expiry(
                group,
                key.topic,
                commit_timestamp_ms=offset.commit_timestamp_ms,
                expire_timestamp_ms=offset.expire_timestamp_ms,
                is_pending=key in waiting,
                retention_ms=RETENTION_MS,
                semantics=rounds.rules.semantics,
            )
            assert (key in after.offsets) == (expected.at_ms is None), (key, group, expected)
            kept += expected.at_ms is None
            expired += expected.at_ms is not None
    assert kept > 3
    assert expired > 10


@pytest.mark.long
@pytest.mark.parametrize(
    ("rounds", "path"),
    [pytest.param(read_kafka_version(path), path, id=path.stem) for path in FOUND],
    indirect=["rounds"],
)
def test_logs_that_once_made_a_difference(rounds: BrokerRounds, path: Path) -> None:
    logs = {p: segment(events)[0] for p, events in read_logs(path, rounds.topics).items()}
    assert rounds.run(logs).differences == {}


@pytest.mark.long
@pytest.mark.parametrize("rounds", [KAFKA_VERSION], indirect=True)
def test_a_difference_is_seen(rounds: BrokerRounds, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that forgets a log partition: the harness itself must not be blind."""
    segments = _segments(rounds, 1001)
    monkeypatch.setattr(
        "tests.differential.broker_round.loaded",
        lambda _raw, rules, **options: loaded(b"", rules, **options),
    )
    assert len(rounds.run(segments).differences) > 10
