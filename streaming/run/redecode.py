"""Decodes the quarantined records of a tables folder again, after an upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing

from streaming.engine.redecode import Redecoded, redecode_quarantine
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.topic_names import TopicNames
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.opening import open_for_writing
from streaming.tables.reader import TableReader
from streaming.tables.schemas import QUARANTINE


def redecode(
    tables: str,
    *,
    bootstrap_servers: str | None = None,
    kafka: Mapping[str, str] | None = None,
) -> Redecoded:
    """Decode quarantined records again and move those that can be decoded into the tables.

    With `bootstrap_servers` the cluster resolves topic names for topic ids in records.

    This takes over the folder: a `run` on another machine that writes to the same store ends.

    Raises:
        ConfigurationError: there are no tables, or a `run` on this machine is writing to them.
        WriterFenced: a newer writer has taken over.
    """
    # Refuses a folder without tables; the lock would create it.
    TableReader(tables)
    with ExitStack() as opened:
        opened.enter_context(tables_folder.locked(tables, advice="stop it first"))
        if TableReader(tables).read(QUARANTINE.name, ["log_partition"]).num_rows == 0:
            return Redecoded()
        writer = open_for_writing(tables, "redecode")
        progress = LoadProgress.read(TableReader(tables))
        if bootstrap_servers is None:
            return redecode_quarantine(writer, progress)
        config = kafka_client_config(kafka or {})
        names = opened.enter_context(closing(TopicNames(bootstrap_servers, config)))
        return redecode_quarantine(writer, progress, names)
