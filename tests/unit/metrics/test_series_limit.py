"""`--max-series`: which series are left out, and that their number is told."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from streaming.alerts.alert import Alert, AlertKey, AlertState
from streaming.alerts.alerts_table import open_alerts, write_alerts
from streaming.metrics.collector import TablesCollector
from streaming.metrics.families import KMINION
from tests.support.tables.sample_rows import sample
from tests.support.tables.scraped_tables import (
    CLUSTER,
    Samples,
    create_scraped_tables,
    group_ids,
    scraped,
)
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows


@pytest.fixture
def tables(tmp_path: Path) -> str:
    return create_scraped_tables(tmp_path)


def left_out(samples: Samples) -> float:
    return samples["coordinator_state_series_left_out", (CLUSTER,)]


def counted(samples: Samples) -> int:
    """Series whose labels clients chose: those that `max_series` is about."""
    by_clients = {"group", "group_id", "topic", "topic_name", "rule"}
    return sum(bool(by_clients & dict(own).keys()) for _, own in samples)


@pytest.mark.long
def test_no_limit_is_passed_and_what_is_left_out_is_counted(tables: str) -> None:
    """Whatever the limit is, and for every naming."""
    for options in ({}, {"names": KMINION}, {"by": "topic"}, {"by": "group"}):
        whole = scraped(tables, **options)
        assert left_out(whole) == 0
        for max_series in range(counted(whole) + 1):
            few = scraped(tables, max_series=max_series, **options)
            assert counted(few) <= max_series
            assert counted(few) + left_out(few) == counted(whole)
            # The metrics of the tables themselves are always there.
            assert few["coordinator_state_up", ()] == 1
            assert set(few) <= set(whole) | {("coordinator_state_series_left_out", (CLUSTER,))}


LAG = "kafka_consumergroup_group_lag"


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A group that lost data, twenty that are well, and some whose ids are very long."""
    now = datetime.now(timezone.utc)
    folder = create_tables(tmp_path_factory.mktemp("crowd"))
    well = [f"well-{number:02}" for number in range(20)]
    long = ["a" * 32_000, "ü" * 300, '"' * 600, "b" * 512]
    offset = {"topic": "t", "partition": 0, "commit_timestamp": now}
    apply_micro_batch(
        folder,
        progress=[{"next_offset": 30}],
        groups=[{"group_id": group, "state": "Empty"} for group in ("worst", *well, *long)],
        group_offsets=[
            *({**offset, "group_id": group, "committed_offset": 100} for group in (*well, *long)),
            {**offset, "group_id": "worst", "committed_offset": 3},
        ],
    )
    samples = [
        sample(at, end, topic, log_start_offset=5)
        for topic, end in (("t", 100), ("__consumer_offsets", 30))
        for at in (now - timedelta(seconds=20), now)
    ]
    write_rows(folder, "log_offsets", samples)
    return folder


def test_groups_in_trouble_stay_and_those_with_long_ids_go_first(crowd: str) -> None:
    whole = scraped(crowd)
    assert len(group_ids(whole)) == 25
    few = scraped(crowd, max_series=30)
    assert "worst" in group_ids(few)
    assert "worst" not in group_ids(few, LAG)
    assert group_ids(few) == {
        "worst",
        *(f"well-{number:02}" for number in range(len(group_ids(few)) - 1)),
    }
    # As many as those of the others are: none is left for the groups whose ids are long.
    long = {group for group in group_ids(whole) if len(group) > 100}
    enough = sum(
        dict(own).get("group", "") not in {"", *long} for _, own in scraped(crowd, by="group")
    )
    assert group_ids(scraped(crowd, by="group", max_series=enough)) == group_ids(whole) - long


def test_long_labels_count_by_their_bytes(crowd: str) -> None:
    """No answer is larger than the limit on series lets expect."""
    for max_series in (0, 100, 3_000):
        registry = CollectorRegistry()
        registry.register(TablesCollector(tables=crowd, max_series=max_series))
        size_bytes = len(generate_latest(registry))
        # A character of a label may be escaped with another.
        assert size_bytes < 20_000 + max_series * 1_300


def test_the_log_says_once_that_series_are_left_out(
    crowd: str, caplog: pytest.LogCaptureFixture
) -> None:
    collector = TablesCollector(tables=crowd, max_series=30)
    with caplog.at_level("INFO", "streaming.metrics.collector"):
        for _ in range(2):
            list(collector.collect())
        (said,) = caplog.messages
        collector.max_series = 100_000
        for _ in range(2):
            list(collector.collect())
    assert re.fullmatch(
        r"[\d,]+ series are left out because there are more than --max-series 30: "
        r"[\d,]+ of groups, [\d,]+ of topics of groups, [\d,]+ of partitions of groups, "
        r"[\d,]+ of partitions of topics",
        said,
    )
    assert caplog.messages[1:] == ["series are no longer left out"]


def test_alerts_are_among_the_series(tables: str) -> None:
    at = datetime.now(timezone.utc)
    key = AlertKey("lag", "a")
    pending = Alert(key=key, severity="warning", state=AlertState.PENDING, since=at)
    firing = replace(pending, key=AlertKey("lag", "b"), state=AlertState.FIRING, fired_at=at)
    write_alerts(open_alerts(tables), {alert.key: alert for alert in (pending, firing)})
    whole = scraped(tables)
    samples = scraped(tables, max_series=1)
    assert [dict(own)["group"] for name, own in samples if name == "coordinator_state_alert"] == [
        "b"
    ]
    assert left_out(samples) == counted(whole) - 1
