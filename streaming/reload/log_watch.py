"""Noticing, while a query runs, that it must start again or end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from streaming.errors import ConfigurationError, LogChanged
from streaming.kafka.fetch import LogClient
from streaming.reload.requests import requested
from streaming.tables.writer_epoch import WriterEpoch

logger = logging.getLogger(__name__)

_TRIES_ONCE_MS = 1


class LogWatch:
    """Checks for reload requests, other log partitions, and a newer writer.

    `is_over` is set if the query must start again, the epoch's `is_fenced` if it must end.

    Args:
        epoch: the writer epoch of the run.
        bootstrap_servers: HOST:PORT, several with commas.
        kafka_config: keyword arguments for kafka-python.
    """

    def __init__(
        self, epoch: WriterEpoch, bootstrap_servers: str, kafka_config: Mapping[str, Any]
    ) -> None:
        self.is_over = threading.Event()
        self._epoch = epoch
        # What does not answer now is asked at the next beat.
        self._new_client = partial(
            LogClient,
            bootstrap_servers,
            kafka_config,
            first_contact_timeout_ms=_TRIES_ONCE_MS,
            retry_timeout_ms=_TRIES_ONCE_MS,
        )
        self._client = self._new_client()
        self._log_partitions: frozenset[int] = frozenset()
        self._wanted: frozenset[int] = frozenset()

    def begin(self, log_partitions: Collection[int], wanted: Collection[int] | None) -> None:
        """A query starts, on these of the log partitions that the topic has, all where None."""
        self._log_partitions = frozenset(log_partitions)
        self._wanted = self._log_partitions if wanted is None else frozenset(wanted)
        self.is_over.clear()

    def look(self) -> None:
        """Check once; a failed check is left to the next time."""
        try:
            self._epoch.require_current()
            if requested(self._epoch.tables) & self._wanted:
                logger.info("log partitions are to be loaded again; the query starts anew")
                self.is_over.set()
                return
            found = frozenset(self._client.look_again().leaders)
        except LogChanged as error:
            logger.debug("%(error)s", {"error": error})
            # A client sticks to the topic that it saw.
            self._client.close()
            self._client = self._new_client()
            self.is_over.set()
        except (ConfigurationError, TimeoutError) as error:
            logger.debug("the log is not looked at: %(error)s", {"error": error})
        else:
            if found != self._log_partitions:
                logger.info(
                    "__consumer_offsets has %(log_partitions)s partitions now, it had %(before)s; "
                    "the query starts anew",
                    {"log_partitions": len(found), "before": len(self._log_partitions)},
                )
                self.is_over.set()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
