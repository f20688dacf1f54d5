"""Names of topics and tables, by the naming specification of OpenLineage.

Producers of events about the same data must use the same names, or a catalogue shows two datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from openlineage.client.naming.dataset import GCS, S3, DatasetNaming, Kafka, LocalFileSystem

from streaming.tables.locations import local_path

_BUCKETS: Final[Mapping[str, Callable[[str, str], DatasetNaming]]] = {
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "gs": GCS,
    "gcs": GCS,
}


def topic_name(bootstrap_servers: str, topic: str) -> tuple[str, str]:
    """The namespace and name of a topic; the first bootstrap server stands for the cluster.

    >>> topic_name("b1:9092,b2:9092", "orders")
    ('kafka://b1:9092', 'orders')
    """
    host, _, port = bootstrap_servers.partition(",")[0].strip().rpartition(":")
    return _named(Kafka(host, port, topic))


def table_name(path: str) -> tuple[str, str]:
    """The namespace and name of a table, by its path or address.

    >>> table_name("/srv/tables/groups"), table_name("s3a://bucket/tables/groups")
    (('file', '/srv/tables/groups'), ('s3://bucket', 'tables/groups'))
    >>> table_name("abfss://data@account.dfs.core.windows.net/tables/groups")
    ('abfss://data@account.dfs.core.windows.net', '/tables/groups')
    """
    local = local_path(path)
    if local is not None:
        return _named(LocalFileSystem(str(local)))
    parts = urlsplit(path)
    if parts.scheme in _BUCKETS:
        return _named(_BUCKETS[parts.scheme](parts.netloc, parts.path.lstrip("/")))
    return f"{parts.scheme}://{parts.netloc}", parts.path


def _named(dataset: DatasetNaming) -> tuple[str, str]:
    return dataset.get_namespace(), dataset.get_name()
