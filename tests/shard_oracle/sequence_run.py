"""One random sequence, up to the first difference, and how it went."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from tests.shard_oracle.comparison import KnownDifference
from tests.shard_oracle.random_sequence import RandomSequence
from tests.shard_oracle.replay_comparison import ReplayComparison
from tests.shard_oracle.shard_process import ShardError, ShardProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a sequence went: `error` where the two were not of one mind, after the last of `steps`.

    `known` is why it was ended early, `seen` counts what came about.
    """

    seed: int
    steps: list[str]
    seen: Counter[str]
    error: Exception | None = None
    known: str | None = None

    def __str__(self) -> str:
        lines = [f"seed {self.seed}:", *(f"  {step}" for step in self.steps)]
        if self.error is not None:
            lines.append(f"{type(self.error).__name__}: {self.error}")
        return "\n".join(lines)


def run_sequence(process: ShardProcess, seed: int, steps: int, *, replays: bool = False) -> Outcome:
    """Put a sequence to Kafka, and to the model or the loader, up to the first difference."""
    sequence = RandomSequence(process, seed, replays)
    outcome = Outcome(seed=seed, steps=sequence.comparison.steps, seen=sequence.comparison.seen)
    try:
        for _ in range(steps):
            sequence.step()
        if isinstance(sequence.comparison, ReplayComparison):
            sequence.comparison.load_again()
    except KnownDifference as known:
        return replace(outcome, known=str(known))
    except ShardError:
        raise
    except Exception as error:  # noqa: BLE001 - a model that fails differs as well
        return replace(outcome, error=error)
    return outcome
