"""/metrics over tables: names, labels, values, limits, and what deploy/ asks for."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.alerts.alert import Alert, AlertKey, AlertState
from streaming.alerts.alerts_table import open_alerts, write_alerts
from streaming.metrics.collector import TablesCollector
from streaming.metrics.families import KMINION, NAMES
from streaming.metrics.row_family import formatted
from streaming.tables.reader import TableReader
from tests.support.tables.alert_rules import lag_of
from tests.support.tables.sample_rows import member_row, sample
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows

DEPLOY = Path(__file__).parents[3] / "deploy"
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
    ends = [("t", 0, 0, 100), ("t", 1, 5, 25), (OFFSETS_TOPIC, 0, 0, 30)]
    samples = [
        sample(at, end - ago, topic, partition, log_start_offset=start)
        for ago in (1, 0)
        for at in (now - timedelta(seconds=20 * ago + 2),)
        for topic, partition, start, end in ends
    ]
    write_rows(tables, "log_offsets", samples)
    return tables


def scraped(tables: str, **options: Any) -> Samples:
    return {
        (sample.name, labels(**sample.labels)): sample.value
        for family in TablesCollector(tables=tables, **options).collect()
        for sample in family.samples
    }


def labels(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(given.items()))


def group_ids(samples: Samples, name: str = "coordinator_state_group_info") -> set[str]:
    return {dict(own)["group"] for metric, own in samples if metric == name}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    return create_scraped_tables(tmp_path_factory.mktemp("scraped"))


def test_the_names_and_labels_of_kafka_lag_exporter(tables: str) -> None:
    samples = scraped(tables)
    group = {"cluster_name": "cluster", "group": 'g"\n'}
    member = {"member_host": "/h", "consumer_id": "m", "client_id": "c"}
    partition = labels(**group, topic="t", partition="0", **member)
    log = labels(cluster_name="cluster", topic="t", partition="1")
    expected = {
        ("kafka_consumergroup_group_offset", partition): 90,
        ("kafka_consumergroup_group_lag", partition): 10,
        ("kafka_consumergroup_group_sum_lag", labels(**group)): 32,
        ("kafka_consumergroup_group_max_lag", labels(**group)): 22,
        ("coordinator_state_group_lag_seconds_is_lower_bound", labels(**group)): 1,
        ("kafka_consumergroup_group_topic_sum_lag", labels(**group, topic="t")): 32,
        ("kafka_partition_latest_offset", log): 25,
        ("kafka_partition_earliest_offset", log): 5,
    }
    assert {series: samples[series] for series in expected} == expected
    # The first uncommitted record is older than the oldest sample: the lower bound.
    assert samples["kafka_consumergroup_group_lag_seconds", partition] >= 22
    assert samples["kafka_consumergroup_group_max_lag_seconds", labels(**group)] >= 22
    assert samples["kafka_consumergroup_poll_time_ms", (CLUSTER,)] > 0


def test_our_own(tables: str) -> None:
    reader = TableReader(tables)
    committed = reader.read("group_offsets")["commit_timestamp"][0].as_py()
    # The newest sample: `load_progress` is older.
    newest = max(reader.read("log_offsets")["sampled_at"].to_pylist())
    prod = {"cluster_name": "prod"}
    group, nothing = {**prod, "group": 'g"\n'}, {**prod, "group": "nothing"}
    topic = {**prod, "log_topic": "__transaction_state"}
    samples = {
        (name.removeprefix("coordinator_state_"), own): value
        for (name, own), value in scraped(tables, cluster_name="prod").items()
    }
    since_then = (datetime.now(timezone.utc) - committed).total_seconds()
    expected = {
        ("up", ()): 1,
        ("group_status", labels(**group, status="DATA_LOSS")): 1,
        ("group_status", labels(**nothing, status="IDLE")): 1,
        ("group_info", labels(**group, type="classic", state="Stable")): 1,
        ("group_members", labels(**group)): 1,
        ("group_data_lost_records", labels(**group)): 2,
        ("log_partition_next_offset", labels(**prod, log_partition="0")): 30,
        ("records_total", labels(**prod, outcome="quarantined")): 1,
        ("pending_offsets", labels(**prod)): 1,
        # No transactional id has its producer id.
        ("pending_offsets_marker_lost", labels(**prod)): 1,
        ("transactions", labels(**prod, state="Ongoing")): 1,
        ("topic_offsets_behind", labels(**topic)): 0,
        ("topic_records_total", labels(**topic, outcome="applied")): 1,
        ("series_left_out", labels(**prod)): 0,
    }
    assert {series: samples[series] for series in expected} == expected
    written = samples["tables_written_timestamp_seconds", labels(**prod)]
    assert written == pytest.approx(newest.timestamp(), abs=0.001)
    assert 7 <= samples["group_last_commit_age_seconds", labels(**group)] <= since_then
    assert 2 <= samples["tables_behind_seconds", labels(**prod)] <= since_then
    assert 50 <= samples["pending_offsets_oldest_seconds", labels(**prod)] <= since_then + 43
    assert samples["scrape_seconds", labels(**prod)] > 0


def test_old_lag_is_no_series(tmp_path: Path) -> None:
    """An autoscaler must not act on it; the statuses say that they are unknown."""
    kept = {"coordinator_state_group_info", "coordinator_state_group_status"}

    def about_groups(seconds_ago: float, names: str) -> set[str]:
        folder = create_tables(tmp_path / f"{seconds_ago} {names}")
        lag_of(folder, 50, seconds_ago=seconds_ago)
        own = scraped(folder, names=NAMES[names])
        assert own["coordinator_state_up", ()] == 1
        (status,) = (dict(o)["status"] for name, o in own if name.endswith("group_status"))
        assert (status == "UNKNOWN") == (seconds_ago > 120)
        by_clients = {"group", "group_id", "topic", "topic_name"}
        return {name for name, o in own if by_clients & dict(o).keys()}

    for names in NAMES:
        assert about_groups(20, names) > kept
        assert about_groups(150, names) == kept


def test_recent_events_are_counted(tmp_path: Path) -> None:
    now = datetime.now(timezone.utc)
    events = [("rebalance", 299), ("rebalance", 10), ("rebalance", 310), ("member_left", 20)]
    commits = [("aborted", 30), ("aborted", 40), ("committed", 50), ("aborted", 400)]
    own: dict[str, Any] = {"group_id": "g", "topic": "t", "partition": 0}

    def rows(column: str, of: list[tuple[str, int]]) -> list[dict[str, Any]]:
        return [
            {**own, column: value, "record_offset": number, "record_timestamp": at}
            | ({"commit_timestamp": at} if column == "outcome" else {})
            for number, (value, seconds) in enumerate(of)
            for at in [now - timedelta(seconds=seconds)]
        ]

    def gauges(history: str) -> list[float | None]:
        folder = create_tables(tmp_path / history, history=history)
        apply_micro_batch(
            folder,
            progress=[{}],
            group_events=rows("event", events),
            offset_commits=rows("outcome", commits),
        )
        lag_of(folder, 50)
        samples = scraped(folder)
        names = ("rebalances", "member_joins", "member_leaves", "aborted_commits")
        series = labels(cluster_name="cluster", group="g")
        return [samples.get((f"coordinator_state_group_{name}", series)) for name in names]

    assert gauges("sampled") == [2, 0, 1, 2]
    # Without history nothing is known.
    assert gauges("off") == [None] * 4


def test_alerts_and_whether_anyone_was_told(tables: str, tmp_path: Path) -> None:
    tables = str(shutil.copytree(tables, tmp_path / "tables"))
    at = datetime.now(timezone.utc)
    key, fires = AlertKey("lag", "g", "t", 3), AlertState.FIRING
    firing = Alert(key=key, severity="critical", state=fires, since=at, fired_at=at)
    muted = replace(firing, key=AlertKey("lag", "h"), muted_by="alert stopped")
    over = replace(firing, key=AlertKey("lag", "i"), state=AlertState.RESOLVED, resolved_at=at)
    pending = replace(firing, key=AlertKey("tables"), state=AlertState.PENDING)
    write_alerts(
        open_alerts(tables), {alert.key: alert for alert in (firing, muted, over, pending)}
    )
    samples = scraped(tables)
    alerts = [dict(own) for name, own in samples if name == "coordinator_state_alert"]
    alert_by_rule = {(alert["rule"], alert["group"]): alert for alert in alerts}
    assert alert_by_rule.keys() == {("lag", "g"), ("lag", "h"), ("tables", "")}
    assert alert_by_rule["lag", "g"] == {
        **{"cluster_name": "cluster", "rule": "lag", "severity": "critical", "state": "firing"},
        **{"muted": "false", "group": "g", "topic": "t", "partition": "3"},
    }
    assert alert_by_rule["lag", "h"]["muted"] == "true"
    assert alert_by_rule["tables", ""]["state"] == "pending"
    assert samples["coordinator_state_alerts_untold", (CLUSTER,)] == 1
    # Alerts are among the series of a limit: those that fire first.
    few = scraped(tables, max_series=1)
    (shown,) = (dict(own) for name, own in few if name == "coordinator_state_alert")
    assert shown["state"] == "firing"
    assert left_out(few) == counted(samples) - 1
    write_alerts(open_alerts(tables), {firing.key: firing.after_sending("chat", at)})
    assert scraped(tables)["coordinator_state_alerts_untold", (CLUSTER,)] == 0


def test_the_names_of_kminion(tables: str) -> None:
    samples = scraped(tables, names=KMINION)
    topic = (("group_id", 'g"\n'), ("topic_name", "t"))
    assert samples["kminion_kafka_consumer_group_topic_lag", topic] == 32
    assert samples["kminion_kafka_consumer_group_topic_offset_sum", topic] == 93
    partition = (topic[0], ("partition_id", "0"), topic[1])
    assert samples["kminion_kafka_consumer_group_topic_partition_lag", partition] == 10
    assert samples["kminion_kafka_consumer_group_members", topic[:1]] == 1
    log = (("partition_id", "1"), ("topic_name", "t"))
    assert samples["kminion_kafka_topic_partition_low_water_mark", log] == 5
    assert not [name for name, _ in samples if name.startswith("kafka_")]


def test_series_can_be_fewer(tables: str) -> None:
    def names(**options: Any) -> set[str]:
        return {name for name, _ in scraped(tables, **options)}

    of_partitions = {"kafka_consumergroup_group_lag", "kafka_partition_latest_offset"}
    of_topics = {"kafka_consumergroup_group_topic_sum_lag"}
    assert of_partitions | of_topics <= names()
    assert of_topics <= names(by="topic")
    assert not of_partitions & names(by="topic")
    assert not (of_partitions | of_topics) & names(by="group")


HOSTILE = (
    'a"b',
    "a\\b",
    "a\nb",
    "a\r\nb{} 1",
    '"} 1\ncoordinator_state_up 0\n#',
    "\x00\x1b[31m",
    "\u202e\u2028\ufeff",
    "x" * 2_000,
    " ",
    "# HELP x y",
    "# EOF",
)


def test_hostile_names_are_labels_and_nothing_else(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    offset = {"partition": 0, "committed_offset": 1, "commit_timestamp": datetime.now(timezone.utc)}
    apply_micro_batch(
        folder,
        progress=[{"next_offset": 30}],
        groups=[{"group_id": name, "state": "Empty"} for name in HOSTILE],
        group_offsets=[{**offset, "group_id": name, "topic": name} for name in HOSTILE],
    )
    metrics = list(TablesCollector(tables=folder).collect())
    parse: dict[bool, Callable[[str], Iterable[Metric]]] = {
        False: text_string_to_metric_families,
        True: openmetrics_families,
    }
    for is_openmetrics, families_of in parse.items():
        text = formatted(metrics, is_openmetrics=is_openmetrics).decode()
        families = {family.name: family for family in families_of(text)}
        assert [sample.value for sample in families["coordinator_state_up"].samples] == [1]
        info = families["coordinator_state_group_info"]
        assert {sample.labels["group"] for sample in info.samples} == set(HOSTILE)
    checked = promtool("metrics", text=formatted(metrics, is_openmetrics=False).decode())
    # kafka-lag-exporter's own name.
    assert [problem for problem in checked.splitlines() if "poll_time_ms" not in problem] == []


def promtool(*arguments: str, text: str = "") -> str:
    """The problems that Prometheus's own check finds; none where it is not installed."""
    program = shutil.which("promtool")
    if program is None:
        return ""
    command = [program, "check", *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    return done.stderr


def test_tables_that_cannot_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = create_tables(tmp_path / "tables")
    apply_micro_batch(folder, progress=[{"next_offset": 3}])
    collector = TablesCollector(folder)
    assert next(iter(collector.collect())).samples[0].value == 1
    (tmp_path / "tables").rename(tmp_path / "moved")
    (up,) = collector.collect()
    assert (up.name, up.samples[0].value) == ("coordinator_state_up", 0)
    (message,) = caplog.messages
    assert message.startswith(f"{folder} cannot be read: ")


def rules() -> list[dict[str, Any]]:
    rules_file = YAML(typ="safe").load((DEPLOY / "prometheus-rules.yaml").read_text())
    return [rule for group in rules_file["groups"] for rule in group["rules"]]


def test_the_dashboard_and_the_rules_ask_for_what_there_is(tables: str) -> None:
    exported = {name for name, _ in scraped(tables)}
    exported |= {"coordinator_state_group_retention_margin_seconds", "coordinator_state_alert"}
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [rule["expr"] for rule in rules()]
    assert len(expressions) > 15
    assert promtool("rules", str(DEPLOY / "prometheus-rules.yaml")) == ""
    assert {rule["labels"]["severity"] for rule in rules()} == {"warning", "critical"}
    for expression in expressions:
        names = set(re.findall(r"\b(?:kafka|coordinator_state)_[a-z_]+\b", expression))
        assert names, expression
        assert names <= exported, expression


@pytest.mark.parametrize("names", NAMES)
def test_every_metric_is_listed(tables: str, repository: Path, names: str) -> None:
    page = (repository / "docs" / "metrics-reference.md").read_text()
    of_tables, _, _ = page.partition("## `run` itself\n")
    other = "kminion" if names == "lag-exporter" else "lag-exporter"
    of_names = re.sub(rf"## [^\n]* `--names {other}`\n.*?\n(?=## )", "", of_tables, flags=re.DOTALL)
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*?) \| ", of_names, re.MULTILINE)
    listed = {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}
    exported = {
        sample.name: (family.type, set(sample.labels))
        for family in TablesCollector(tables, names=NAMES[names]).collect()
        for sample in family.samples
    }
    assert {name: listed.get(name) for name in exported} == exported
    # These have a sample only where there is something to tell.
    assert listed.keys() - exported.keys() == {
        "coordinator_state_group_lag_growth_per_second",
        "coordinator_state_group_time_to_catch_up_seconds",
        "coordinator_state_group_retention_margin_seconds",
        "coordinator_state_alert",
    }


# --- `--max-series`: the series that are left out, and their number


def left_out(samples: Samples) -> float:
    return samples["coordinator_state_series_left_out", (CLUSTER,)]


def counted(samples: Samples) -> int:
    """Series whose labels clients chose: those that `max_series` is about."""
    by_clients = {"group", "group_id", "topic", "topic_name", "rule"}
    return sum(bool(by_clients & dict(own).keys()) for _, own in samples)


@pytest.mark.long
def test_no_limit_is_passed_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    """Whatever the limit is, and for every naming."""
    tables = create_scraped_tables(tmp_path)
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


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A group that lost data, twenty that are well, and some whose ids are very long."""
    now = datetime.now(timezone.utc)
    folder = create_tables(tmp_path_factory.mktemp("crowd"))
    well = [f"well-{number:02}" for number in range(20)]
    long = ["a" * 1_100, "ü" * 300, '"' * 600, "b" * 512]
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
    logs = ((now - timedelta(seconds=20), "t", 100), (now, "t", 100), (now, OFFSETS_TOPIC, 30))
    samples = [sample(at, end, topic, log_start_offset=5) for at, topic, end in logs]
    write_rows(folder, "log_offsets", samples)
    return folder


def test_groups_in_trouble_stay_and_those_with_long_ids_go_first(crowd: str) -> None:
    whole = scraped(crowd)
    assert len(group_ids(whole)) == 25
    few = scraped(crowd, max_series=30)
    assert "worst" not in group_ids(few, "kafka_consumergroup_group_lag")
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
        metrics = TablesCollector(tables=crowd, max_series=max_series).collect()
        size_bytes = len(formatted(metrics, is_openmetrics=False))
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
