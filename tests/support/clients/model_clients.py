"""The model of the coordinator, asked as a broker is."""

from __future__ import annotations

from typing import Any

from coordinator_state.model.group_coordinator import GroupCoordinator
from coordinator_state.model.log import Producer
from coordinator_state.model.requests import Reply


class ModelClients(GroupCoordinator):
    """The model; time goes by where somebody waits."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.advance(1)
        self._producers: dict[str, Producer] = {}

    def settle(self, *replies: Reply[Any]) -> None:
        """Let time pass until there are answers."""
        while not all(reply.is_done for reply in replies):
            due_ms = self.shard.timers.next_due_ms
            assert due_ms is not None, "nothing will ever answer"
            self.advance(due_ms)

    def producer(self, transactional_id: str) -> Producer:
        """The producer of a transactional id."""
        return self._producers.setdefault(transactional_id, Producer(len(self._producers), 0))
