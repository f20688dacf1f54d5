"""Log lines about records that a broker would refuse to load."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from coordinator_state.apply.groups import ReplayWarning

logger = logging.getLogger(__name__)


def log_refused(warnings: Iterable[ReplayWarning]) -> None:
    """Log one line for each record; the tables have the reason in `groups.replay_warning`."""
    for warning in warnings:
        logger.info(
            "log partition %(log_partition)s: a broker would not load record offset "
            "%(record_offset)s: %(reason)s",
            {
                "log_partition": warning.log_partition,
                "record_offset": warning.record_offset,
                "reason": warning.reason,
            },
        )
