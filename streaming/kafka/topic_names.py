"""Topic names by topic id: records of consumer and share groups have only topic ids."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from typing import Any, Final

from streaming.errors import ConfigurationError
from streaming.kafka.group_admin import GroupAdmin

logger = logging.getLogger(__name__)

_RETRY_TIMEOUT_MS: Final = 5_000
_UNKNOWN_CACHED_S: Final = 60.0


class TopicNames:
    """Asks a cluster for topic names, and caches them; call `close` at the end.

    An unresolved name is not an error: the topic is deleted, the client may not see it, or no
    broker answers in time. A call at least a minute later asks for it again.
    """

    def __init__(self, bootstrap_servers: str, kafka_config: Mapping[str, Any]) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._kafka_config = kafka_config
        self._admin: GroupAdmin | None = None
        self._names: dict[str, str] = {}
        self._ask_at: dict[str, float] = {}

    def __call__(self, topic_ids: Collection[str]) -> dict[str, str]:
        """Return the topic names by topic id; unresolved ids are omitted."""
        now = time.monotonic()
        unknown = [
            topic_id
            for topic_id in topic_ids
            if topic_id not in self._names and self._ask_at.get(topic_id, now) <= now
        ]
        if unknown:
            self._ask(unknown)
            self._ask_at.update(dict.fromkeys(unknown, now + _UNKNOWN_CACHED_S))
        return {
            topic_id: self._names[topic_id] for topic_id in topic_ids if topic_id in self._names
        }

    def close(self) -> None:
        """Close the connection."""
        if self._admin is not None:
            self._admin.close()

    def _ask(self, topic_ids: Collection[str]) -> None:
        if self._admin is None:
            self._admin = GroupAdmin(
                self._bootstrap_servers, self._kafka_config, retry_timeout_ms=_RETRY_TIMEOUT_MS
            )
        try:
            self._names.update(self._admin.topic_names(topic_ids))
        except (ConfigurationError, TimeoutError) as error:
            logger.info(
                "cannot resolve the names of %(topics)s topics: %(error)s",
                {"topics": len(topic_ids), "error": error},
            )
