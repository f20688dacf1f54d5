"""Sends the events to the catalogue beside a query, in rounds.

A round sends the events that are due, and ends at the first failure; the next round is the retry.
No event is queued: the next round makes it from the tables. So memory is bounded by the number of
groups, however long the catalogue is away. Failures are logged as those of brokers are: once, and
then once a minute.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from openlineage.client.event_v2 import JobEvent, RunEvent, RunState
from openlineage.client.serde import Serde
from openlineage.client.uuid import generate_new_uuid
from pydantic import SecretStr

from streaming.alerts.delivery import DeliveryError, TransientDeliveryError, post
from streaming.errors import first_line
from streaming.kafka.outage import Outage
from streaming.kafka.secrets import read_file
from streaming.lineage.events import group_event, run_event
from streaming.lineage.relations import GroupTopics, Relations
from streaming.tables.clock import utc_now

API_KEY: Final = "OPENLINEAGE_API_KEY"
"""The environment variable that OpenLineage's own clients read, too."""
REPEAT_S: Final = 24 * 60 * 60.0
"""A new catalogue knows every group after a day."""
REFUSED_S: Final = 10 * 60.0
"""When an event that the catalogue refused is sent again."""

_PATH: Final = "/api/v1/lineage"
_TIMEOUT_S: Final = (3.0, 5.0)
"""To connect, and to be answered. The end of `run` waits for a POST that has begun."""


Event: TypeAlias = JobEvent | RunEvent
Key: TypeAlias = RunState | str
"""A state of the run, or a group id."""


class Answer(NamedTuple):
    """The catalogue's answer to the last event of a key.

    Attributes:
        group: the group of the event; None if the event is about the run.
        due_at: when the event is sent again, by the clock.
        is_refused: whether it was refused.
        is_known: whether the catalogue has accepted an event of the key.
    """

    group: GroupTopics | None
    due_at: float
    is_refused: bool
    is_known: bool


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

    def post(self, event: Event) -> None:
        """Send an event.

        Raises:
            TransientDeliveryError: the catalogue is unreachable or overloaded.
            DeliveryError: it refused the event.
            ConfigurationError: the file with the API key cannot be read any more.
        """
        post(self._url, Serde.to_dict(event), self._headers(), timeout_s=_TIMEOUT_S)

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
        self._relations = Relations(tables)
        self._start: RunEvent | None = None
        self._answers: dict[Key, Answer] = {}
        self._outage: Outage | None = None

    def __enter__(self) -> LineageReporter:
        self._start = self._run_event(RunState.START)
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Send the end of the run, in one attempt: nothing may hold up the end."""
        state = RunState.COMPLETE if error is None else RunState.FAIL
        message = "" if error is None else first_line(error) or type(error).__name__
        try:
            if self._start is not None:
                self._catalogue.post(self._start)
            self._catalogue.post(self._run_event(state, message))
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
            if self._outage is not None and not any(
                answer.is_refused for answer in self._answers.values()
            ):
                self._outage.ended()
                self._outage = None

    def _run_event(self, state: RunState, error: str = "") -> RunEvent:
        return run_event(
            state,
            self._run_id,
            tables=self._tables,
            bootstrap_servers=self._bootstrap_servers,
            internal_topics=self._internal_topics,
            now=utc_now(),
            error=error,
        )

    def _send(self, until: float) -> None:
        for key, group, event in self._events():
            now, last = self._clock(), self._answers.get(key)
            if last is not None and last.group == group and now < last.due_at:
                continue
            if now > until:
                return
            try:
                self._catalogue.post(event())
            except TransientDeliveryError:
                raise
            except DeliveryError:
                # It waits, so that it does not hold back the others.
                is_known = last is not None and last.is_known
                self._note(key, Answer(group, now + REFUSED_S, is_refused=True, is_known=is_known))
                raise
            self._note(key, Answer(group, now + REPEAT_S, is_refused=False, is_known=True))
            if key is RunState.START:
                self._start = None

    def _note(self, key: Key, answer: Answer) -> None:
        """Keep an answer; that to the end of a group is the last of its key."""
        if answer.group is not None and not answer.group.topics:
            self._answers.pop(key, None)
        else:
            self._answers[key] = answer

    def _events(self) -> Iterator[tuple[Key, GroupTopics | None, Callable[[], Event]]]:
        """The events by key, in their order; those of groups have the group."""
        if (start := self._start) is not None:
            yield RunState.START, None, lambda: start
        self._relations.refresh()
        if self._relations.is_loaded:
            yield RunState.RUNNING, None, partial(self._run_event, RunState.RUNNING)
        ended = []
        for key, answer in list(self._answers.items()):
            if answer.group is not None and self._relations.is_gone(answer.group.group_id):
                if answer.is_known:
                    ended.append(GroupTopics(answer.group.group_id, answer.group.group_type))
                else:
                    del self._answers[key]
        for group in [*self._relations.groups.values(), *ended]:
            yield group.group_id, group, partial(self._group_event, group)

    def _group_event(self, group: GroupTopics) -> JobEvent:
        return group_event(group, self._bootstrap_servers, utc_now())
