"""The bench's comparison in small: tables of the command `run` equal the commits and the broker."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

import pytest

from bench.backfill import broker_load, run_cold
from bench.commits import Commits, put_in_front
from bench.equality import Equality, check_equality
from coordinator_state.partitioner import DEFAULT_LOG_PARTITIONS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.conftest import FreshBroker

# Three JVMs start, on a machine that may have other things to do.
pytestmark = pytest.mark.timeout(900)

COMMITS, KEYS, GROUPS = 20_000, 2_000, 200


def test_a_whole_log_is_materialised_equal(fresh_broker: FreshBroker, tmp_path: Path) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    commits = Commits(count=COMMITS, key_count=KEYS, from_ms=time.time_ns() // 1_000_000 - COMMITS)
    put_in_front(broker, commits, log_partitions=DEFAULT_LOG_PARTITIONS)
    loaded, _ = broker_load(broker.wait_until_loaded())
    assert loaded.records == COMMITS

    run_cold(broker.bootstrap_servers, tmp_path)

    def equality_with(expected: Commits) -> Equality:
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
    assert equality.offsets == KEYS
    assert equality.broker.counts["group"] == GROUPS
    assert equality.broker.counts["offset"] == KEYS
    assert equality.records_read == COMMITS

    one_fewer = equality_with(dataclasses.replace(commits, count=COMMITS - 1))
    assert len(one_fewer.wrong_offsets) == 1
    assert not one_fewer.is_equal
