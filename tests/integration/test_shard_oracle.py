"""The model beside Kafka's own coordinator shard; `python -m tests.shard_oracle` runs many more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from coordinator_state.model.error_codes import ErrorCode
from coordinator_state.model.group_coordinator import GroupCoordinator
from tests.shard_oracle.__main__ import main
from tests.shard_oracle.comparison import Difference
from tests.shard_oracle.sequence_run import run_sequence
from tests.shard_oracle.shard_process import ShardProcess

pytestmark = pytest.mark.long

RUNS, STEPS = 80, 60


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShardProcess]:
    with ShardProcess(tmp_path_factory.mktemp("shard-oracle")) as process:
        yield process


def test_random_sequences_make_no_difference(process: ShardProcess) -> None:
    seen, ended_early = Counter[str](), 0
    for seed in range(1, RUNS + 1):
        outcome = run_sequence(process, seed, STEPS)
        assert outcome.error is None, str(outcome)
        seen += outcome.seen
        ended_early += outcome.known is not None
    assert ended_early < RUNS / 4
    # What there is to differ in has come about.
    assert {"classic to consumer", "consumer to classic"} < seen.keys()
    assert {"join timer", "sync timer", "heartbeat timer"} < seen.keys()
    assert {"session timer", "rebalance timer", "rejoin timer", "resync timer"} < seen.keys()


def test_a_sequence_is_the_same_another_time(process: ShardProcess) -> None:
    assert run_sequence(process, 7, STEPS).steps == run_sequence(process, 7, STEPS).steps


def test_a_difference_is_seen(process: ShardProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes every heartbeat for good; the steps end with the first that was not."""
    monkeypatch.setattr(GroupCoordinator, "heartbeat", lambda *_arguments: ErrorCode.NONE)
    outcomes = [run_sequence(process, seed, STEPS) for seed in range(1, 11)]
    different = [outcome for outcome in outcomes if outcome.error is not None]
    assert different
    for outcome in different:
        assert isinstance(outcome.error, Difference)
        assert outcome.steps[-1].startswith("heartbeat(")


def test_the_command_line_says_how_many_were_different() -> None:
    result = CliRunner().invoke(main, ["--runs", "2", "--seed", "3", "--verbose"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("seed 3:\n  ")
    assert "2 sequences, " in result.output
    assert " steps, 0 different\n" in result.output
