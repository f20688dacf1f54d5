"""Decoding the quarantine of a tables folder again, after an upgrade that knows more."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing

from coordinator_state.offsets import Semantics
from streaming.apply.redecode import Redecoded, redecode_quarantine
from streaming.kafka.client_config import kafka_client_config
from streaming.kafka.topic_names import TopicNames
from streaming.tables import folder as tables_folder
from streaming.tables.load_progress import LoadProgress
from streaming.tables.reader import TableReader
from streaming.tables.schemas import LOAD_PROGRESS, QUARANTINE


def redecode(
    tables: str,
    *,
    bootstrap_servers: str | None = None,
    kafka: Mapping[str, str] | None = None,
) -> Redecoded:
    """Decode quarantined records again and move those that can be decoded into the tables.

    With `bootstrap_servers` the cluster tells the names of topics that groups know by id.

    Raises:
        ConfigurationError: no tables there, or a run is writing to them.
    """
    # Refuses what holds no tables before a lock would make the folder.
    TableReader(tables)
    with ExitStack() as opened:
        opened.enter_context(tables_folder.locked(tables))
        reader = TableReader(tables)
        if reader.read(QUARANTINE.name, ["log_partition"]).num_rows == 0:
            return Redecoded()
        progress = LoadProgress.from_arrow(
            reader.read(LOAD_PROGRESS.name),
            cluster_id=reader.cluster_id,
            topic_id=reader.topic_id,
            semantics=Semantics(reader.semantics),
        )
        if bootstrap_servers is None:
            return redecode_quarantine(tables, progress)
        config = kafka_client_config(kafka or {})
        names = opened.enter_context(closing(TopicNames(bootstrap_servers, config)))
        return redecode_quarantine(tables, progress, names)
