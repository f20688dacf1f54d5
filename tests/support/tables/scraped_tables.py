"""Tables that `/metrics` is scraped over, and the samples of a scrape."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streaming.metrics.collector import TablesCollector
from tests.support.tables.sample_rows import member_row, sample
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

CLUSTER = ("cluster_name", "cluster")
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def create_scraped_tables(folder: Path) -> str:
    now = datetime.now(timezone.utc)
    tables = create_tables(folder)
    offset = {"group_id": 'g"\n', "topic": "t", "commit_timestamp": now - timedelta(seconds=7)}
    apply_micro_batch(
        tables,
        progress=[{"records_applied": 5, "records_quarantined": 1, "next_offset": 30}],
        groups=[
            {"group_id": 'g"\n', "member_count": 1, "state": "Stable"},
            {"group_id": "nothing"},
        ],
        group_members=[member_row('g"\n', "m", "t", [0], client_id="c", client_host="/h")],
        group_offsets=[
            {**offset, "partition": 0, "committed_offset": 90},
            {**offset, "partition": 1, "committed_offset": 3},
            {**offset, "topic": "unseen", "partition": 0, "committed_offset": 3},
        ],
        pending_offsets=[
            {**offset, "partition": 0, "commit_timestamp": now - timedelta(seconds=50)}
        ],
        transactions=[{"transactional_id": "payments", "producer_id": 9, "state": "Ongoing"}],
        topic_progress=[
            {
                **{"log_topic": "__transaction_state", "next_offset": 30, "high_watermark": 30},
                **{"records_read": 1, "records_applied": 1},
            }
        ],
    )
    ends = [("t", 0, 0, 100), ("t", 1, 5, 25), ("__consumer_offsets", 0, 0, 30)]
    samples = [
        sample(at, end - ago, topic, partition, log_start_offset=start)
        for ago in (1, 0)
        for at in (now - timedelta(seconds=20 * ago + 2),)
        for topic, partition, start, end in ends
    ]
    write_rows(tables, "log_offsets", samples)
    return tables


def scraped(tables: str, **options: Any) -> Samples:
    registry = CollectorRegistry()
    registry.register(TablesCollector(tables=tables, **options))
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labels(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted({**given, "cluster_name": "cluster"}.items()))


def group_ids(samples: Samples, name: str = "coordinator_state_group_info") -> set[str]:
    return {dict(own)["group"] for metric, own in samples if metric == name}
