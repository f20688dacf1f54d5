"""The reporter of OpenLineage events that the settings ask for."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.run.settings import RunSettings

if TYPE_CHECKING:
    from streaming.lineage.reporter import LineageReporter

LINEAGE_INTERVAL: Final = timedelta(seconds=10)

_BESIDE_QUERY_S: Final = 5.0
"""How long a round sends at most: the end of `run` waits for the round."""
_AFTER_QUERY_S: Final = 60.0
"""The same with `available_now`, where the only round has all groups."""


def lineage_reporter(settings: RunSettings) -> LineageReporter | None:
    """Return the reporter, None without `openlineage`.

    Raises:
        ConfigurationError: the API key cannot be read.
        ModuleNotFoundError: `openlineage-python` is not installed.
    """
    if settings.openlineage is None:
        return None
    # The package `openlineage-python` is an extra.
    from streaming.lineage.reporter import Catalogue, LineageReporter

    return LineageReporter(
        Catalogue(settings.openlineage, settings.openlineage_key_file),
        tables=settings.tables,
        bootstrap_servers=settings.bootstrap_servers,
        internal_topics=(OFFSETS_TOPIC, *settings.other_topics),
        interval_s=LINEAGE_INTERVAL.total_seconds(),
        round_s=_AFTER_QUERY_S if settings.available_now else _BESIDE_QUERY_S,
    )
