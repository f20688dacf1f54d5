"""OpenLineage events, by the classes of the official client.

A group is a job without runs: Kafka keeps its offsets and assignments, and nobody starts or ends
it. So a JobEvent describes a group, which the specification has for lineage that is known without
a run. `run` is a job with a run from its start to its end, which RunEvents describe.

Topics and tables have the names of OpenLineage's naming specification: producers of events about
the same data must use the same names, or a catalogue shows two datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from importlib.metadata import version
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
from openlineage.client.event_v2 import (
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import (
    documentation_job,
    error_message_run,
    job_type_job,
    schema_dataset,
    storage_dataset,
)
from openlineage.client.naming.dataset import GCS, S3, DatasetNaming, Kafka, LocalFileSystem

from coordinator_state.replay.groups import SHARE, STREAMS
from streaming.lineage.relations import GroupTopics
from streaming.tables.locations import local_path
from streaming.tables.schemas import ALL_TABLES, Table

PRODUCER: Final = f"urn:coordinator-state:{version('coordinator-state')}"
_BUCKETS: Final[Mapping[str, Callable[[str, str], DatasetNaming]]] = {
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "gs": GCS,
    "gcs": GCS,
}
_JOB_TYPES: Final = {SHARE: "SHARE_GROUP", STREAMS: "STREAMS_GROUP"}
_NO_TOPICS: Final = " It no longer reads any topic: the group is deleted, or its offsets expired."


def group_event(group: GroupTopics, bootstrap_servers: str, now: datetime) -> JobEvent:
    """The event of a group: all topics that it reads, which may be none."""
    namespace, _ = topic_name(bootstrap_servers, "-")
    job_type = _JOB_TYPES.get(group.group_type, "CONSUMER_GROUP")
    description = f"Kafka {group.group_type} group." + ("" if group.topics else _NO_TOPICS)
    return JobEvent(
        eventTime=now.isoformat(),
        producer=PRODUCER,
        job=_job(namespace, group.group_id, "KAFKA", job_type, description),
        inputs=_topics(bootstrap_servers, group.topics),
    )


def run_event(
    state: RunState,
    run_id: str,
    *,
    tables: str,
    bootstrap_servers: str,
    internal_topics: Sequence[str],
    now: datetime,
    error: str = "",
) -> RunEvent:
    """An event of `run`, from the internal topics to the Delta tables; `error` ended it."""
    message = error_message_run.ErrorMessageRunFacet(error, "Python", producer=PRODUCER)
    description = "Keeps Kafka's coordinator state as Delta tables (coordinator-state run)."
    return RunEvent(
        eventTime=now.isoformat(),
        producer=PRODUCER,
        eventType=state,
        run=Run(run_id, {"errorMessage": message} if error else {}),
        job=_job("coordinator-state", f"run {tables}", "COORDINATOR_STATE", "JOB", description),
        inputs=_topics(bootstrap_servers, internal_topics),
        outputs=[_table(table, tables) for table in ALL_TABLES],
    )


def _job(namespace: str, name: str, integration: str, job_type: str, description: str) -> Job:
    return Job(
        namespace,
        name,
        {
            "jobType": job_type_job.JobTypeJobFacet(
                "STREAMING", integration, job_type, producer=PRODUCER
            ),
            "documentation": documentation_job.DocumentationJobFacet(
                description, producer=PRODUCER
            ),
        },
    )


def _topics(bootstrap_servers: str, topics: Sequence[str]) -> list[InputDataset]:
    return [InputDataset(*topic_name(bootstrap_servers, topic)) for topic in topics]


def _table(table: Table, tables: str) -> OutputDataset:
    return OutputDataset(
        *table_name(table.path(tables)),
        facets={
            "schema": schema_dataset.SchemaDatasetFacet(
                [_column(column) for column in table.schema], producer=PRODUCER
            ),
            "storage": storage_dataset.StorageDatasetFacet("delta", "parquet", producer=PRODUCER),
        },
    )


def _column(column: pa.Field) -> schema_dataset.SchemaDatasetFacetFields:
    """A column with its nested fields, by the specification's names for elements and entries."""
    kind, nested = str(column.type), []
    if pa.types.is_struct(column.type):
        kind, nested = "struct", list(column.type)
    elif pa.types.is_map(column.type):
        kind = "map"
        nested = [column.type.key_field.with_name("key"), column.type.item_field.with_name("value")]
    elif pa.types.is_list(column.type):
        kind, nested = "array", [column.type.value_field.with_name("_element")]
    return schema_dataset.SchemaDatasetFacetFields(
        column.name, kind, fields=[_column(field) for field in nested]
    )


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
