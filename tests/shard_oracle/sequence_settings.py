"""What holds for all of a random sequence: the cluster, and what its clients never do.

What they never do is what docs/simulate.md says that the model does otherwise.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from coordinator_state.model.shard import CoordinatorConfig
from coordinator_state.model.topics import Topic, Topics

# Ids of different buckets of a Java hash map: in one bucket, a map's history decides.
TOPIC_IDS: Final = {"t": UUID(int=1), "u": UUID(int=2)}
SUBSCRIPTIONS: Final = (("t",), ("t", "u"), ("u",), ("t", "missing"))
SHORT_WAITS_MS: Final = (10, 500, 1_500, 3_000, 6_000)
LONG_WAITS_MS: Final = (10_000, 21_000, 46_000, 301_000)
RETENTION_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Of one sequence.

    In one that `fails`, appends do now and then. Where it `is_uniform`, all members subscribe to
    the same topics: only then the uniform assignor is Kafka's. Elsewhere everybody names the range
    assignor, which always is.

    Who `forgets` joins an empty consumer group with a member id of before. Kafka forgets the group
    then without a record of it: it is back where an append fails, and there all the time for who
    asks for what is committed, so nobody does.
    """

    group_ids: tuple[str, ...]
    config: CoordinatorConfig
    topics: Topics
    waits_ms: tuple[int, ...]
    fails: bool
    forgets: bool
    is_uniform: bool

    @classmethod
    def draw(cls, choose: random.Random) -> Settings:
        """Draw them."""
        fails, is_uniform = choose.random() < 0.3, choose.random() < 0.4
        # A full classic group cannot take back a consumer group whose last member that named an
        # assignor leaves: the default one follows, which is the uniform assignor.
        is_limited = is_uniform and choose.random() < 0.5
        most = {"group_max_size": 2, "consumer_group_max_size": 3} if is_limited else {}
        return cls(
            group_ids=("g",) if choose.random() < 0.7 else ("g", "h"),
            config=CoordinatorConfig(
                group_initial_rebalance_delay_ms=choose.choice((0, 3_000)),
                offsets_retention_ms=RETENTION_MS,
                **most,
            ),
            topics=Topics({t: Topic(i, choose.randrange(1, 9)) for t, i in TOPIC_IDS.items()}),
            waits_ms=SHORT_WAITS_MS + (LONG_WAITS_MS if choose.random() < 0.5 else ()),
            fails=fails,
            forgets=not fails and choose.random() < 0.3,
            is_uniform=is_uniform,
        )
