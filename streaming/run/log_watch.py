"""Noticing, while a query runs, that it must start again or end."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import TYPE_CHECKING, Any

from streaming.errors import ConfigurationError, LogChanged
from streaming.kafka.fetch import TRIES_ONCE_MS, LogClient
from streaming.kafka.leaders import ELECTION_S, LogDescription
from streaming.reload.requests import requested
from streaming.tables.schemas import STATE_CURRENT, STATE_LOADING
from streaming.tables.writer_epoch import WriterEpoch

if TYPE_CHECKING:
    from streaming.run.start import Start

logger = logging.getLogger(__name__)


class LogWatch:
    """Checks what a query cannot notice by itself.

    These are a newer writer, reload requests, other log partitions, log partitions that lose their
    leader or get one, and log partitions whose end the query has not reached for longer than
    `delete.retention.ms`. `is_over` is set if the query must start again, the epoch's `is_fenced`
    if it must end.

    Args:
        epoch: the writer epoch of the run.
        bootstrap_servers: HOST:PORT, several with commas.
        kafka_config: keyword arguments for kafka-python.
        delete_retention: the topic's `delete.retention.ms`.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        epoch: WriterEpoch,
        bootstrap_servers: str,
        kafka_config: Mapping[str, Any],
        delete_retention: timedelta,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.is_over = threading.Event()
        self._epoch = epoch
        # A broker that does not answer now is asked at the next beat.
        self._new_client = partial(
            LogClient,
            bootstrap_servers,
            kafka_config,
            first_contact_timeout_ms=TRIES_ONCE_MS,
            retry_timeout_ms=TRIES_ONCE_MS,
        )
        self._client = self._new_client()
        self._delete_retention_s = delete_retention.total_seconds()
        self._clock = clock
        self._start: Start | None = None
        self._led_at: dict[int, float] = {}
        self._at_end_at: dict[int, float] = {}
        self._current_at: defaultdict[int, datetime | None] = defaultdict(lambda: None)

    def begin(self, start: Start) -> None:
        """A query starts."""
        self._start = start
        self._current_at.update({p: row.current_at for p, row in start.progress.rows.items()})
        self._led_at = dict.fromkeys(start.log_partitions, self._clock())
        # A load or reload that has not come to the end yet takes as long as it takes.
        self._at_end_at = {
            p: self._clock_at(row.current_at)
            for p, row in start.progress.rows.items()
            if p in start.log_partitions and row.current_at and row.state != STATE_LOADING
        }
        self.is_over.clear()

    def last_at_end(self) -> dict[int, datetime]:
        """When each log partition was seen read to its end last, by this machine's clock."""
        now_s, now = self._clock(), datetime.now(timezone.utc)
        return {p: now - timedelta(seconds=now_s - at) for p, at in self._at_end_at.items()}

    def look(self) -> None:
        """Check once; a failed check is left to the next time."""
        start = self._start
        if start is None:
            return
        try:
            self._epoch.require_current()
            reason = next(self._reasons(start), None)
        except LogChanged as error:
            reason = str(error)
            # A client sticks to the topic that it saw.
            self._client.close()
            self._client = self._new_client()
        except (ConfigurationError, TimeoutError) as error:
            logger.debug("the log is not looked at: %(error)s", {"error": error})
            return
        if reason is not None:
            logger.info("the query starts again: %(reason)s", {"reason": reason})
            self.is_over.set()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _reasons(self, start: Start) -> Iterator[str]:
        """Why the query must start again."""
        if requested(self._epoch.tables) & (start.log_partitions | start.waiting):
            yield "log partitions are to be loaded again"
        log = self._client.refresh()
        if log.leaders.keys() != start.log.leaders.keys():
            yield (
                f"__consumer_offsets has {len(log.leaders)} partitions now, it had "
                f"{len(start.log.leaders)}"
            )
        if found := start.waiting & log.with_leader:
            yield f"there is a leader again of log partitions {_numbers(found)}"
        if lost := self._leaderless(start, log):
            yield f"there is no leader of log partitions {_numbers(lost)}"
        if behind := self._behind_for_too_long(start, log):
            yield (
                f"log partitions {_numbers(behind)} were not read to their end for longer than "
                "delete.retention.ms"
            )

    def _leaderless(self, start: Start, log: LogDescription) -> set[int]:
        """The log partitions of the query without a leader for some time, unless all are."""
        now_s = self._clock()
        led = start.log_partitions & log.with_leader
        self._led_at.update(dict.fromkeys(led, now_s))
        lost = {p for p in start.log_partitions if now_s - self._led_at[p] >= ELECTION_S}
        return lost if led else set()

    def _behind_for_too_long(self, start: Start, log: LogDescription) -> set[int]:
        """The log partitions whose tombstones may be gone before they are read."""
        now_s = self._clock()
        rows = start.progress.rows
        log_ends = self._client.high_watermarks(start.log_partitions & log.with_leader)
        for log_partition, log_end in log_ends.items():
            row = rows.get(log_partition)
            if row is None or row.is_reloading:
                continue
            if row.next_offset >= log_end:
                self._at_end_at[log_partition] = now_s
            elif row.state == STATE_CURRENT and row.current_at != self._current_at[log_partition]:
                # On a busy log partition, only the micro-batches see the end that they read to.
                self._at_end_at[log_partition] = now_s
            self._current_at[log_partition] = row.current_at
        return {p for p, at in self._at_end_at.items() if now_s - at > self._delete_retention_s}

    def _clock_at(self, moment: datetime) -> float:
        """The time of the clock at a moment of the past."""
        return self._clock() - (datetime.now(timezone.utc) - moment).total_seconds()


def _numbers(log_partitions: Collection[int]) -> str:
    return ", ".join(map(str, sorted(log_partitions)))
