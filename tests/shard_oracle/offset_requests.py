"""What a random sequence asks about offsets, and of whole groups."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator_state.model.log import Producer
from coordinator_state.model.requests import OffsetCommitRequest, OffsetToCommit
from tests.shard_oracle.clients import Client
from tests.shard_oracle.comparison import Comparison
from tests.shard_oracle.replay_comparison import ReplayComparison
from tests.shard_oracle.sequence_settings import SUBSCRIPTIONS, Settings


@dataclass
class OffsetRequests:
    """Requests to a coordinator; `open_producers` have a transaction that has not ended."""

    comparison: Comparison | ReplayComparison
    settings: Settings
    choose: random.Random
    open_producers: set[Producer] = field(default_factory=set)

    def commit(self, clients: Sequence[Client]) -> None:
        """In the name of one of the clients, or of nobody; some in a transaction."""
        client = Client(group_id=self.choose.choice(self.settings.group_ids))
        if clients and self._chance(0.8):
            client = self.choose.choice(clients)
        request = OffsetCommitRequest(
            group_id=client.group_id,
            member_id=client.member_id,
            group_instance_id=client.instance_id,
            generation_id=client.epoch + (self._chance(0.1) and self.choose.choice((-1, 1))),
            version=self.choose.choice((8, 9)),
            offsets=[
                OffsetToCommit(
                    topic=topic,
                    partition=self.choose.randrange(2),
                    committed_offset=self.choose.randrange(100),
                    leader_epoch=self.choose.choice((-1, 5)),
                    metadata=self.choose.choice(("", "somebody's")),
                )
                for topic in self.choose.choice(SUBSCRIPTIONS)
            ],
        )
        if self._chance(0.4):
            producer = Producer(self.choose.randrange(2), 0)
            self.open_producers.add(producer)
            self.comparison.ask("commit_offsets", request, producer)
        else:
            self.comparison.ask("commit_offsets", request)

    def end_transaction(self) -> None:
        """One of those that are open."""
        if self.open_producers:
            producer = self.choose.choice(sorted(self.open_producers))
            self.open_producers.remove(producer)
            self.comparison.ask("end_transaction", producer, is_commit=self._chance(0.6))

    def fetch(self) -> None:
        """All that a group has."""
        group_id = self.choose.choice(self.settings.group_ids)
        is_stable = self.settings.forgets or self._chance(0.5)
        self.comparison.ask("fetch_offsets", group_id, require_stable=is_stable)

    def delete_offsets(self) -> None:
        """Of both topics."""
        group_id = self.choose.choice(self.settings.group_ids)
        partitions = [(topic, self.choose.randrange(2)) for topic in ("t", "u")]
        self.comparison.ask("delete_offsets", group_id, partitions)

    def delete_groups(self) -> None:
        """One of them."""
        self.comparison.ask("delete_groups", [self.choose.choice(self.settings.group_ids)])

    def expire(self) -> None:
        """Have a look at what has expired."""
        self.comparison.ask("expire_offsets")

    def _chance(self, share: float) -> bool:
        return self.choose.random() < share
