"""The upkeep of a tables folder beside `run`, and as `coordinator-state maintain`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime, timedelta, timezone

from streaming.errors import ConfigurationError, WriterFenced
from streaming.tables import folder
from streaming.tables.creation import keep_snapshots
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import FORMAT_VERSION
from streaming.tables.upkeep import TableUpkeep, upkeep
from streaming.tables.writer_epoch import WriterEpoch

logger = logging.getLogger(__name__)


def maintain(
    tables: str,
    *,
    history_retention: timedelta,
    snapshot_retention: timedelta | None = None,
) -> Iterator[TableUpkeep]:
    """Do the upkeep of a folder that no `run` on this machine is writing to, table by table.

    A folder of an earlier release is migrated first.

    Args:
        tables: the folder, or an address that delta-rs can open.
        history_retention: how long days of history are kept.
        snapshot_retention: from now on snapshots are kept for so long; as before where None.

    Raises:
        ConfigurationError: there are no tables, a `run` on this machine is writing to them, or some
            of the work failed; the rest is done.
        WriterFenced: a newer writer has taken over meanwhile.
    """
    # Refuses a folder without tables, which the lock would make.
    reader = TableReader(tables, any_format=True)
    with folder.locked(tables):
        # Beside a `run` in a store, which goes on; a migration takes the folder over.
        if reader.format_version == FORMAT_VERSION:
            epoch = WriterEpoch.current(tables)
        else:
            epoch = open_for_writing(tables, "maintain").epoch
        if snapshot_retention is not None:
            keep_snapshots(epoch, snapshot_retention)
        errors = []
        for done in upkeep(epoch, history_retention, now=datetime.now(timezone.utc)):
            yield done
            errors += [done.error] if done.error else []
    if errors:
        raise ConfigurationError("; ".join(errors))


def tidy_up_beside(epoch: WriterEpoch, history_retention: timedelta) -> bool:
    """Do the upkeep of a folder beside the query that writes it; return whether all succeeded.

    Failures are logged and retried in the next round.

    Raises:
        WriterFenced: a newer writer has taken over.
    """
    is_whole = True
    try:
        for done in upkeep(epoch, history_retention, now=datetime.now(timezone.utc)):
            if done.error:
                logger.warning("%(error)s; trying again later", {"error": done.error})
                is_whole = False
            if not done.is_nothing:
                logger.info(
                    "upkeep of %(table)s: %(days_deleted)s days of history and %(files_deleted)s "
                    "files deleted, %(files_compacted)s files put together",
                    asdict(done),
                )
    except WriterFenced:
        raise
    except ConfigurationError as error:
        logger.warning("%(error)s; trying again later", {"error": error})
        return False
    return is_whole
