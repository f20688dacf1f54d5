"""The leader epochs of a log's records, as its leader knows them (KIP-101).

A broker keeps an entry for each epoch of a log (`LeaderEpochFileCache` in Kafka 4.2.0). A client
can ask for one at a time: OffsetForLeaderEpoch for an epoch returns the last epoch up to it, and
its end, which is the start of the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streaming.kafka.log_requests import epoch_ends_request
from streaming.kafka.seen_log import EpochEntry, Leaders, OffsetAndEpoch, partitions_of

_MOST_ENTRIES: Final = 3
_MOST_ASKED: Final = 20
"""Entries of a log: the epochs of records further back are not looked up."""


@dataclass(slots=True)
class _Entries:
    """The entries of a log under one leader, newest first; `next_epoch` is that of the next one."""

    leader_epoch: int
    entries: list[EpochEntry] = field(default_factory=list)
    next_epoch: int = 0

    def below(self, offset: int) -> list[EpochEntry]:
        """The entries that begin below a record offset, newest first."""
        return [entry for entry in self.entries if entry.start_offset < offset]

    def is_enough(self, offset: int) -> bool:
        """Whether nothing more is asked about the records below an offset."""
        is_asked = self.next_epoch < 0 or len(self.entries) >= _MOST_ASKED
        return is_asked or len(self.below(offset)) >= _MOST_ENTRIES

    def add(self, earlier_epoch: int, start_offset: int) -> None:
        """Take in the start of the next entry, and the epoch before it; -1 if there is none."""
        # Without an entry before, a broker answers with the epoch that it was asked about, and the
        # same start.
        is_none = bool(self.entries) and start_offset >= self.entries[-1].start_offset
        if is_none or start_offset < 0:
            self.next_epoch = -1
            return
        self.entries.append(EpochEntry(self.next_epoch, start_offset))
        self.next_epoch = earlier_epoch if start_offset else -1


class LeaderEpochs:
    """Looks up the epochs of each log partition once for each leader."""

    def __init__(self) -> None:
        self._known: dict[int, _Entries] = {}

    def has(self, log_partition: int, end: OffsetAndEpoch) -> bool:
        """Whether nothing more is to be asked about the records below an offset."""
        entries = self._known.get(log_partition)
        if entries is None or entries.leader_epoch != end.leader_epoch:
            return False
        return entries.is_enough(end.offset)

    async def look_up(self, leaders: Leaders, ends: Mapping[int, OffsetAndEpoch]) -> None:
        """Ask the leaders of these epochs about the records below offsets; in an attempt.

        Raises:
            TransientFailure: a leader does not answer.
        """
        epochs = {p: leaders.leaders[p][1] for p in ends if p in leaders.leaders}
        for p, epoch in epochs.items():
            if p not in self._known or self._known[p].leader_epoch != epoch:
                self._known[p] = _Entries(epoch, next_epoch=epoch)
        asking = {p: self._known[p] for p, epoch in epochs.items() if epoch == ends[p].leader_epoch}
        while asking := {
            p: entries for p, entries in asking.items() if not entries.is_enough(ends[p].offset)
        }:
            asked = {p: entries.next_epoch - 1 for p, entries in asking.items()}
            for p in [p for p, epoch in asked.items() if epoch < 0]:
                asking[p].add(-1, 0)
                del asked[p]
            answers, failure = await leaders.ask(
                asked,
                lambda group, asked=asked: epoch_ends_request(
                    leaders.topic, epochs, {p: asked[p] for p in group}
                ),
            )
            for data in partitions_of(answers):
                leaders.check(data.error_code, f"log partition {data.partition}")
                asking[data.partition].add(data.leader_epoch, data.end_offset)
            if failure is not None:
                raise failure

    def below(self, log_partition: int, end: OffsetAndEpoch) -> tuple[EpochEntry, ...]:
        """The entries of the records below an offset, oldest first; empty if they are unknown."""
        entries = self._known.get(log_partition)
        if entries is None or entries.leader_epoch != end.leader_epoch:
            return ()
        return tuple(reversed(entries.below(end.offset)[:_MOST_ENTRIES]))
