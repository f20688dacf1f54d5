"""Of what a rule's condition holds, over tables with groups in several states."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from coordinator_state.insight.group_status import StatusRules
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.alerts.facts import Facts, condition_findings
from streaming.alerts.replay import findings_of
from streaming.alerts.rules import Rule
from streaming.alerts.sql_rules import SqlRules
from streaming.errors import ConfigurationError
from streaming.lag.evaluation import Evaluation
from streaming.tables.reader import TableReader
from tests.support.tables.sample_rows import sample
from tests.support.tables.status_tables import NOW, at, create_status_tables
from tests.support.tables.tables_folder import apply_micro_batch, create_tables, write_rows
from tests.unit.alerts.reference_findings import reference_findings

Findings = dict[tuple[str | int | None, ...], tuple[str | None, float | None]]


@pytest.fixture
def tables(status_tables: str) -> str:
    return status_tables


@cache
def sql_rules(tables: str) -> SqlRules:
    return SqlRules(tables)


@cache
def facts(tables: str, moment: datetime) -> Facts:
    return Facts(TableReader(tables), moment, StatusRules())


def findings(tables: str, moment: datetime = NOW, **condition: Any) -> Findings:
    rule = Rule.model_validate({"name": "rule", **condition})
    matches = findings_of(rule, facts(tables, moment), sql_rules(tables))
    assert all(finding.key.rule == "rule" for finding in matches)
    keys = [tuple(finding.key[1:]) for finding in matches]
    assert len(set(keys)) == len(keys)
    return {
        key: (finding.reason, finding.value) for key, finding in zip(keys, matches, strict=True)
    }


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ({"status": ["REBALANCING_LOOP", "REWIND"]}, [("back",), ("loop",)]),
        # A group without offsets has a status too.
        ({"status": "IDLE", "groups": "nothing"}, [("nothing",)]),
        # The status of some topics, or of a topic or partition, is that of their partitions.
        ({"status": "REBALANCING_LOOP", "topics": "t"}, []),
        ({"status": "DATA_LOSS", "topics": "t"}, [("old",)]),
        ({"status": "DATA_LOSS", "topics": "u*"}, []),
        ({"status": "DATA_LOSS", "by": "topic"}, [("old", "t")]),
        ({"status": "EXPIRING", "by": "partition"}, [("old", "t", 0)]),
        ({"status": "DATA_LOSS", "groups": ["*", "!old"]}, []),
        # A measure of a group is that of all its partitions together.
        ({"lag": "> 98", "groups": "old"}, []),
        ({"lag": "> 90", "by": "partition"}, [("back", "t", 0), ("old", "t", 1)]),
        # All conditions must hold.
        ({"status": ["REWIND", "DATA_LOSS"], "lag": "> 95"}, [("old",)]),
        # Where everything is read, nothing is unknown.
        ({"retention_margin": "< 1h", "groups": ["idle", "nothing"]}, []),
    ],
)
def test_a_rule_matches_groups_topics_or_partitions(
    tables: str, condition: dict[str, Any], keys: list[tuple[str | int, ...]]
) -> None:
    assert [
        tuple(part for part in key if part is not None) for key in findings(tables, **condition)
    ] == keys


@pytest.mark.parametrize(
    ("condition", "reason", "value"),
    [
        (
            {"status": "REWIND", "groups": "back"},
            *("REWIND: went back 30 s ago from 90 to 5; now 6;", 94),
        ),
        ({"lag": "> 97", "groups": "old"}, "lag is 98 (> 97)", 98),
        ({"data_lost": ">= 1"}, "data_lost is 1 (>= 1)", 1),
        ({"status": ["REWIND", "DATA_LOSS"], "lag": "> 95"}, "; lag is 98 (> 95)", 98),
        # A second passes after the last sample of the log of commits.
        ({"commit_age": "> 1s", "groups": "back"}, "commit_age is 9 s (> 1s)", 9_000),
    ],
)
def test_a_finding_has_a_reason_and_a_value(
    tables: str, condition: dict[str, Any], reason: str, value: float
) -> None:
    ((text, number),) = findings(tables, **condition).values()
    assert reason in str(text)
    assert number == value


def test_a_time_lag_fires_by_its_lower_bound(tmp_path: Path) -> None:
    """The first uncommitted record of `old` is older than the oldest sample, 100 s ago."""
    folder = create_status_tables(tmp_path)
    reader = TableReader(folder)
    ends = [
        {**row, "log_end_offset": row["log_end_offset"] + 3 * (row["log_end_offset"] == 5)}
        for row in reader.read("log_offsets").to_pylist()
    ]
    write_rows(folder, "log_offsets", ends)
    of_old: dict[str, Any] = {"groups": "old", "topics": "t", "by": "partition"}
    (finding,) = findings(folder, time_lag="> 90s", lag="> 90", **of_old).values()
    assert finding == ("lag is 97 (> 90); time_lag is at least 99 s (> 90s)", 97.0)
    # It may be more than that.
    assert findings(folder, time_lag="> 5m", lag="> 90", **of_old) == {
        ("old", "t", 1): (None, None)
    }


def test_what_tables_of_before_say_is_not_known(tables: str) -> None:
    later = NOW + timedelta(minutes=3)
    for condition in ({"lag": "> 0"}, {"time_lag": "> 1s"}, {"status": ["STOP", "REWIND"]}):
        matches = findings(tables, later, groups="back", **condition)
        assert matches == {("back", None, None): (None, None)}
    (unknown,) = findings(tables, later, groups="back", status="UNKNOWN").values()
    assert unknown[0] is not None


def test_a_partition_that_is_not_known_decides_where_it_may(tmp_path: Path) -> None:
    folder = create_status_tables(tmp_path)
    reader = TableReader(folder)
    unseen = [
        row if row["topic"] != "t" or row["partition"] else {**row, "sampled_at": at(7_200)}
        for row in reader.read("log_offsets").to_pylist()
    ]
    write_rows(folder, "log_offsets", [row for row in unseen if row["sampled_at"] > at(3_600)])
    of_old: dict[str, Any] = {"groups": "old"}
    assert findings(folder, lag="> 90", **of_old) == {
        ("old", None, None): ("lag is 97 (> 90)", 97.0)
    }
    assert findings(folder, lag="> 97", **of_old) == {("old", None, None): (None, None)}
    assert findings(folder, lag="< 100", **of_old) == {("old", None, None): (None, None)}
    assert findings(folder, status="STOP", **of_old) == {("old", None, None): (None, None)}
    assert list(findings(folder, status="DATA_LOSS", **of_old)) == [("old", None, None)]


@pytest.mark.parametrize(
    ("behind_s", "reason"),
    [
        (62, "the tables are 62 s behind __consumer_offsets (> 1m)"),
        # The only sample is too old to say anything; load_progress was written at 03:14.
        (100_000, "the tables were last written 28 h ago, and the log has not been sampled since"),
    ],
)
def test_how_far_the_tables_are_behind(tables: str, behind_s: int, reason: str) -> None:
    assert findings(tables, at(0), tables_behind="> 1m") == {}
    matches = findings(tables, at(1) + timedelta(seconds=behind_s), tables_behind="> 1m")
    assert list(matches) == [(None, None, None)]
    assert str(matches[None, None, None][0]).startswith(reason)


def test_tables_that_are_written_to_and_far_behind(tmp_path: Path) -> None:
    folder = create_tables(tmp_path)
    apply_micro_batch(
        folder, progress=[{"next_offset": 110, "high_watermark": 500, "updated_at": at(1)}]
    )
    write_rows(
        folder,
        "log_offsets",
        [sample(at(ago), 2_000 - ago, OFFSETS_TOPIC) for ago in range(0, 2_000, 30)],
    )
    (finding,) = findings(folder, tables_behind="> 2m").values()
    assert finding[0] == "the tables are 32 min behind __consumer_offsets (> 2m)"


def test_sql(tables: str) -> None:
    sql = """
        SELECT l.group_id, l.topic, sum(l.lag) AS value, 'much of ' || l.topic AS reason
        FROM group_lag l JOIN groups g USING (group_id) JOIN group_status s USING (group_id)
        WHERE s.status <> 'IDLE' GROUP BY ALL HAVING sum(l.lag) > 90 ORDER BY value
    """
    assert findings(tables, sql=sql) == {
        ("back", "t", None): ("much of t", 94.0),
        ("old", "t", None): ("much of t", 98.0),
    }
    assert list(findings(tables, sql=sql, groups="o*")) == [("old", "t", None)]
    assert findings(tables, sql="SELECT 1 FROM group_events LIMIT 1") == {
        (None, None, None): ("the query returned a row", None)
    }
    # Any other columns and numbers; and several rows of a key are one finding.
    odd = "SELECT 'nan'::DOUBLE AS value, TIMESTAMP 'infinity' AS never, 'x' AS topic"
    assert findings(tables, sql=odd) == {(None, "x", None): ("the query returned a row", None)}
    rows_of_old = "SELECT group_id FROM group_lag WHERE group_id = 'old'"
    assert list(findings(tables, sql=rows_of_old)) == [("old", None, None)]


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("SELEC", "Parser Error"),
        ("SELECT nothing FROM group_lag", "Binder Error"),
        ("SELECT * FROM read_text('/etc/hostname')", "Permission Error"),
        ("SELECT 'x' AS value", "column value: 'x' is not a number"),
        ("SELECT 'x' AS partition", "column partition: 'x' is not a whole number"),
        ("SELECT 3000000000 AS partition", "column partition: 3000000000 is not a 32-bit number"),
        ("SELECT 1 AS group_id", "column group_id: 1 is not text"),
        ("", "sql"),
    ],
)
def test_sql_that_is_wrong(tables: str, sql: str, fault: str) -> None:
    with pytest.raises((ConfigurationError, ValueError), match=fault):
        findings(tables, sql=sql)


def test_sql_is_of_the_moment(tables: str) -> None:
    sql = """
        SELECT group_id, count(*) AS value FROM group_events
        WHERE record_timestamp > moment() - INTERVAL 35 SECOND GROUP BY ALL
    """
    assert findings(tables, sql=sql)["loop", None, None] == ("the query returned a row", 4)
    earlier = findings(tables, at(30), sql=sql)
    assert earlier["loop", None, None] == ("the query returned a row", 7)


# --- many keys at once


CONDITIONS: list[dict[str, Any]] = [
    {"status": ["OK"]},
    {"status": ["IDLE", "STOP", "WARN"]},
    {"status": ["UNKNOWN"]},
    {"lag": "> 0"},
    {"lag": "< 400"},
    {"lag_to_last_stable": ">= 1"},
    {"data_lost": "> 0"},
    {"time_lag": "> 1s"},
    {"time_lag": "< 1h"},
    {"retention_margin": "< 1d"},
    {"commit_age": "> 10s"},
    {"commit_rate": "< 1"},
    {"status": ["STOP", "STALL"], "lag": "> 100", "time_lag": "> 30s"},
]
PLACES: list[dict[str, Any]] = [{}, {"groups": ["*o*", "!old"]}, {"topics": ["t*"]}]


@pytest.mark.parametrize("by", ["group", "topic", "partition"])
def test_findings_are_those_of_rows_one_by_one(by: str, tables: str) -> None:
    reader = TableReader(tables)
    rules = [
        Rule.model_validate({"name": "rule", "by": by, **condition, **place})
        for condition, place in product(CONDITIONS, PLACES)
    ]
    findings_of_rules = 0
    for moment in (NOW, NOW - timedelta(minutes=3), NOW + timedelta(hours=3)):
        evaluation = Evaluation.of(reader, at=moment)
        for rule in rules:
            findings_of_rule = sorted(map(repr, condition_findings(rule, evaluation)))
            assert findings_of_rule == sorted(map(repr, reference_findings(rule, evaluation)))
            findings_of_rules += len(findings_of_rule)
    assert findings_of_rules > 100
