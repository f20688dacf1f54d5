"""Sends the events to the catalogue beside a query, in rounds.

A round sends the events that are due, and ends at the first failure; the next round is the retry.
Failures are logged as those of brokers are: once, and then once a minute.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit

from openlineage.client.event_v2 import JobEvent, RunEvent, RunState
from openlineage.client.serde import Serde
from openlineage.client.uuid import generate_new_uuid
from pydantic import SecretStr

from streaming.alerts.delivery import DeliveryError, TransientDeliveryError, post_once
from streaming.errors import first_line
from streaming.kafka.outage import Outage
from streaming.kafka.secrets import read_file
from streaming.lineage.events import group_event, run_event
from streaming.lineage.relations import REPEAT_S, Relations, SentGroups
from streaming.tables.clock import utc_now

API_KEY: Final = "OPENLINEAGE_API_KEY"
"""The environment variable that OpenLineage's own clients read, too."""

_PATH: Final = "/api/v1/lineage"
_TIMEOUT_S: Final = (3.0, 5.0)
"""To connect, and to be answered. The end of `run` waits for a POST that has begun."""


class Catalogue:
    """An OpenLineage endpoint.

    It does not use the client's own HTTP transport, which follows redirects: an answer of 200 from
    a login page would count as success.

    Args:
        url: the address; one without a path gets that of OpenLineage's specification.
        key_file: the file with the API key. None: the environment variable, if it is set.

    Raises:
        ConfigurationError: the file cannot be read.
    """

    def __init__(self, url: str, key_file: str | None = None) -> None:
        parts = urlsplit(url)
        self.name = f"OpenLineage at {parts.netloc}"
        self._url = SecretStr(parts._replace(path=parts.path.rstrip("/") or _PATH).geturl())
        self._key_file = key_file
        self._headers()

    def post(self, event: JobEvent | RunEvent) -> None:
        """Send an event.

        Raises:
            TransientDeliveryError: the catalogue is unreachable or overloaded.
            DeliveryError: it refused the event.
            ConfigurationError: the file with the API key cannot be read any more.
        """
        post_once(self._url, Serde.to_dict(event), self._headers(), timeout_s=_TIMEOUT_S)

    def _headers(self) -> dict[str, str]:
        """The API key, read anew each time: keys are rotated."""
        key = os.environ.get(API_KEY, "")
        if self._key_file is not None:
            key = read_file("--openlineage-key-file", Path(self._key_file))
        return {"Authorization": f"Bearer {key}"} if key else {}


logger = logging.getLogger(__name__)


class LineageReporter:
    """Reports a run, as long as the block lasts, and the groups of its tables.

    Args:
        catalogue: takes the events.
        tables: the tables folder.
        bootstrap_servers: the cluster, for the names of topics.
        internal_topics: the topics that `run` reads.
        interval_s: the time between two rounds, for the log.
        round_s: how long a round sends, at most.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        tables: str,
        bootstrap_servers: str,
        internal_topics: Sequence[str],
        interval_s: float,
        round_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._catalogue = catalogue
        self._tables = tables
        self._bootstrap_servers = bootstrap_servers
        self._internal_topics = internal_topics
        self._interval_s = interval_s
        self.round_s = round_s
        self._clock = clock
        self._run_id = str(generate_new_uuid())
        self._run_events: dict[RunState, RunEvent] = {}
        self._running_due = clock()
        self._relations = Relations(tables)
        self._sent_groups = SentGroups()
        self._outage: Outage | None = None

    def __enter__(self) -> LineageReporter:
        self._add(RunState.START)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Send the end of the run, in one attempt: nothing may hold up the end."""
        if error is None:
            self._add(RunState.COMPLETE)
        else:
            self._add(RunState.FAIL, first_line(error) or type(error).__name__)
        try:
            self._send_run(self._clock() + self.round_s)
        except Exception as failure:
            logger.warning(
                "%(catalogue)s: cannot send the end of the run: %(error)s",
                {"catalogue": self._catalogue.name, "error": first_line(failure)},
            )
            logger.debug("traceback of the warning above", exc_info=True)

    def report(self) -> None:
        """Send what is due. It never fails: the next round is the retry."""
        until = self._clock() + self.round_s
        try:
            self._send(until)
        except Exception as error:
            self._outage = self._outage or Outage(
                self._catalogue.name, "send events", logged_after_s=0, clock=self._clock
            )
            self._outage.failed(DeliveryError(first_line(error)), self._interval_s)
            logger.debug("traceback of the failure above", exc_info=True)
        else:
            if self._outage is not None and not self._sent_groups.is_refused:
                self._outage.ended()
                self._outage = None

    def _add(self, state: RunState, error: str = "") -> None:
        """Keep an event of the run until it is sent; a later one of its state replaces it."""
        self._run_events[state] = run_event(
            state,
            self._run_id,
            tables=self._tables,
            bootstrap_servers=self._bootstrap_servers,
            internal_topics=self._internal_topics,
            now=utc_now(),
            error=error,
        )

    def _send(self, until: float) -> None:
        refusal = None
        try:
            self._send_run(until)
        except TransientDeliveryError:
            raise
        except DeliveryError as error:
            # The catalogue may accept groups.
            refusal = error
        self._relations.refresh()
        if self._relations.is_loaded and self._running_due <= self._clock():
            self._add(RunState.RUNNING)
            self._running_due = self._clock() + REPEAT_S
        self._send_groups(until)
        if refusal is not None:
            raise refusal

    def _send_run(self, until: float) -> None:
        for state, event in list(self._run_events.items()):
            if self._clock() > until:
                return
            self._catalogue.post(event)
            del self._run_events[state]

    def _send_groups(self, until: float) -> None:
        for group in self._sent_groups.due(self._relations, self._clock()):
            if self._clock() > until:
                return
            now = utc_now()
            try:
                self._catalogue.post(group_event(group, self._bootstrap_servers, now))
            except TransientDeliveryError:
                raise
            except DeliveryError:
                self._sent_groups.refused(group, self._clock())
                raise
            self._sent_groups.sent(group, self._clock())
