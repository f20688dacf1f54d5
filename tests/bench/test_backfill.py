"""The bench's comparison in small: tables of the command `run` equal the commits and the broker."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

import pytest

from bench.backfill import broker_load, run_cold
from coordinator_state.model.plain_commits import PlainCommits
from tests.support.brokers.fresh_broker import FreshBroker, fresh_brokers
from tests.support.tables.equality import Equality, check_equality

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.integration,
    # Three JVMs start, on a machine that may have other things to do.
    pytest.mark.timeout(900),
]

COMMITS, KEYS, GROUPS = 20_000, 2_000, 200


@pytest.fixture
def fresh_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshBroker]:
    """A function that starts a broker, which is stopped at the end of the test."""
    with fresh_brokers(tmp_path_factory) as start:
        yield start


@pytest.mark.parametrize(
    "in_transactions",
    [False, pytest.param(True, marks=(pytest.mark.long, pytest.mark.release))],
)
def test_a_whole_log_is_materialised_equal(
    fresh_broker: FreshBroker, tmp_path: Path, in_transactions: bool
) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    commits = PlainCommits(
        count=COMMITS,
        key_count=KEYS,
        from_ms=time.time_ns() // 1_000_000 - COMMITS,
        in_transactions=in_transactions,
    )
    broker.load_logs(commits.logs())
    loaded, _ = broker_load(broker.wait_until_loaded())
    assert loaded.records == commits.records
    assert commits.records == COMMITS if not in_transactions else commits.records > COMMITS * 1.1

    run_cold(broker.bootstrap_servers, tmp_path)

    def equality_with(expected: PlainCommits) -> Equality:
        return check_equality(
            str(tmp_path / "tables"),
            expected.last,
            bootstrap_servers=broker.bootstrap_servers,
            groups_sampled=GROUPS,
        )

    equality = equality_with(commits)
    assert not equality.wrong_offsets
    assert not equality.broker.differences
    assert equality.is_equal
    # A key may have no commit but aborted ones.
    assert equality.offsets == len(commits.last) > 0.9 * KEYS
    assert equality.broker.counts["group"] == GROUPS
    assert equality.broker.counts["offset"] == len(commits.last)
    assert equality.records_read == commits.records

    fewer = COMMITS - 1 if not in_transactions else COMMITS // 2
    one_fewer = equality_with(dataclasses.replace(commits, count=fewer))
    assert one_fewer.wrong_offsets
    assert not one_fewer.is_equal
