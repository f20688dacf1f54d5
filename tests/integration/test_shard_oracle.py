"""The loader beside Kafka's own shard; `python -m tests.shard_oracle` runs more."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from coordinator_state.replay.consumer_groups import ConsumerGroup
from coordinator_state.replay.groups import STABLE
from coordinator_state.replay.offsets import OffsetReplay
from tests.shard_oracle.comparison import Difference
from tests.shard_oracle.random_sequence import run_sequence
from tests.shard_oracle.shard_process import ShardProcess
from tests.support.brokers.jar_sets import RELEASES, SCALA_VERSION

SHORT_RUNS, RUNS, STEPS = 15, 30, 60
OLDEST, *BETWEEN, NEWEST = (release for release in RELEASES if release != SCALA_VERSION)
COORDINATOR_RELEASES = [
    pytest.param(OLDEST, marks=pytest.mark.long),
    *(pytest.param(release, marks=(pytest.mark.long, pytest.mark.release)) for release in BETWEEN),
    NEWEST,
]


@pytest.mark.parametrize("release", COORDINATOR_RELEASES)
def test_what_a_release_writes_is_replayed_as_that_release_replays_it(
    release: str, tmp_path: Path
) -> None:
    seen = Counter[str]()
    runs = SHORT_RUNS if release == NEWEST else RUNS
    with ShardProcess(tmp_path, release) as process:
        for seed in range(1, runs + 1):
            outcome = run_sequence(process, seed, STEPS)
            assert outcome.error is None, str(outcome)
            seen += outcome.seen
    assert seen["live consumer group"] > 10 * runs
    assert min(seen["loaded group"], seen["loaded offset"]) > runs / 2
    # What there is to differ in has come about.
    assert min(seen["classic to consumer"], seen["consumer to classic"], seen["pending offset"]) > 0


FAULTS = {
    "a consumer group is always Stable": (ConsumerGroup, "state", STABLE),
    "a tombstone removes nothing": (OffsetReplay, "replay_tombstone", lambda *_, **__: []),
    "no transaction ends": (OffsetReplay, "replay_end_transaction_marker", lambda *_, **__: []),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_a_difference_is_seen(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    with ShardProcess(tmp_path, NEWEST) as process:
        outcomes = [run_sequence(process, seed, STEPS) for seed in range(1, SHORT_RUNS + 1)]
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    assert errors
    assert all(isinstance(error, Difference) for error in errors)
