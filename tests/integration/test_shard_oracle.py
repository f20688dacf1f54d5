"""The model, and the loader, beside Kafka's own shard; `python -m tests.shard_oracle` runs more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator_state.model.classic_requests import ClassicRequests
from coordinator_state.model.requests import ErrorCode
from tests.shard_oracle.comparison import Difference
from tests.shard_oracle.random_sequence import run_sequence
from tests.shard_oracle.shard_process import ShardProcess
from tests.support.brokers.jar_sets import RELEASES, SCALA_VERSION

SHORT_RUNS, RUNS, STEPS, REPLAYS = 40, 80, 60, 15
OLDEST, *BETWEEN, NEWEST = (release for release in RELEASES if release != SCALA_VERSION)
COORDINATOR_RELEASES = [
    OLDEST,
    *(pytest.param(release, marks=pytest.mark.release) for release in BETWEEN),
    NEWEST,
]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardProcess]:
    with ShardProcess(tmp_path_factory.mktemp("shard-oracle")) as process:
        yield process


def test_some_random_sequences_make_no_difference(process: ShardProcess) -> None:
    outcomes = [run_sequence(process, seed, STEPS) for seed in range(1, SHORT_RUNS + 1)]
    assert [str(outcome) for outcome in outcomes if outcome.error is not None] == []


@pytest.mark.long
def test_random_sequences_make_no_difference(process: ShardProcess) -> None:
    seen, ended_early = Counter[str](), 0
    for seed in range(SHORT_RUNS + 1, RUNS + 1):
        outcome = run_sequence(process, seed, STEPS)
        assert outcome.error is None, str(outcome)
        seen += outcome.seen
        ended_early += outcome.known is not None
    assert ended_early < RUNS / 4
    # What there is to differ in has come about.
    assert {"classic to consumer", "consumer to classic"} < seen.keys()
    assert {"join timer", "sync timer", "heartbeat timer"} < seen.keys()
    assert {"session timer", "rebalance timer", "rejoin timer", "resync timer"} < seen.keys()


@pytest.mark.long
@pytest.mark.parametrize("release", COORDINATOR_RELEASES)
def test_what_a_release_writes_is_replayed_as_that_release_replays_it(
    release: str, tmp_path: Path
) -> None:
    seen = Counter[str]()
    with ShardProcess(tmp_path, release) as process:
        for seed in range(1, REPLAYS + 1):
            outcome = run_sequence(process, seed, STEPS, replays=True)
            assert outcome.error is None, str(outcome)
            seen += outcome.seen
    assert seen["live consumer group"] > 10 * REPLAYS
    assert min(seen["loaded group"], seen["loaded offset"]) > REPLAYS / 2


@pytest.mark.long
def test_a_difference_is_seen(process: ShardProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes every heartbeat for good; the steps end with the first that was not."""
    monkeypatch.setattr(ClassicRequests, "heartbeat", lambda *_arguments: ErrorCode.NONE)
    outcomes = [run_sequence(process, seed, STEPS) for seed in range(1, 11)]
    different = [outcome for outcome in outcomes if outcome.error is not None]
    assert different
    for outcome in different:
        assert isinstance(outcome.error, Difference)
        assert outcome.steps[-1].startswith("heartbeat(")
