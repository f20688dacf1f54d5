"""The upkeep of a tables folder beside `run`, and as `coordinator-state maintain`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta, timezone

from streaming.errors import ConfigurationError
from streaming.migration import migrate
from streaming.tables import folder
from streaming.tables.creation import keep_snapshots
from streaming.tables.reader import TableReader
from streaming.tables.upkeep import TableUpkeep, upkeep

logger = logging.getLogger(__name__)


def maintain(
    tables: str,
    *,
    history_retention: timedelta,
    snapshot_retention: timedelta | None = None,
) -> Iterator[TableUpkeep]:
    """Tidy up a folder that no `run` is writing to, table by table; migrate it before.

    Args:
        tables: the folder, or an address that delta-rs can open.
        history_retention: how long days of history are kept.
        snapshot_retention: from now on snapshots are kept for so long; as before where None.

    Raises:
        ConfigurationError: there are no tables, a `run` is writing to them, or some of it could
            not be done; the rest is.
    """
    # Refuses a folder without tables, which the lock would make.
    TableReader(tables, any_format=True)
    with folder.locked(tables):
        migrate(tables)
        if snapshot_retention is not None:
            keep_snapshots(tables, snapshot_retention)
        errors = []
        for done in upkeep(tables, history_retention, now=datetime.now(timezone.utc)):
            yield done
            errors += [done.error] if done.error else []
    if errors:
        raise ConfigurationError("; ".join(errors))


def tidy_up_beside(tables: str, history_retention: timedelta) -> bool:
    """Tidy up beside the query that writes a folder, and log what was done; tell whether all was.

    What goes wrong is said and tried again the next time.
    """
    is_whole = True
    try:
        for done in upkeep(tables, history_retention, now=datetime.now(timezone.utc)):
            if done.error:
                logger.warning("%(error)s; trying again later", {"error": done.error})
                is_whole = False
            if not done.is_nothing:
                logger.info(
                    "upkeep of %(table)s: %(days_deleted)s days of history and %(files_deleted)s "
                    "files deleted, %(files_compacted)s files put together",
                    asdict(done),
                )
    except ConfigurationError as error:
        logger.warning("%(error)s; trying again later", {"error": error})
        return False
    return is_whole
