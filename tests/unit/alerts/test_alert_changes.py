"""Groups that go from one bad status to another, and what sinks and the table say of it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from coordinator_state.replay.partitioner import OFFSETS_TOPIC
from streaming.alerts.alert import AlertState
from streaming.alerts.alert_run import AlertRun
from streaming.alerts.alerts_table import open_alerts, read_alerts, write_alerts
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALERTS
from tests.support.brokers.receivers import HttpReceiver
from tests.support.tables.alert_rules import lag_of, sent_statuses
from tests.support.tables.sample_rows import sample
from tests.support.tables.tables_folder import Row, write_rows

pytestmark = pytest.mark.usefixtures("attempts_follow_soon")

RULES = """interval: 0.2s
sinks: {{hook: {{type: webhook, url: '{url}'}}}}
rules:
"""
ONE_RULE = "- {name: bad, status: [DATA_LOSS, TOPIC_GONE]}\n"
TWO_RULES = "- {name: lost, status: DATA_LOSS}\n- {name: gone, status: TOPIC_GONE}\n"


def run_of(tables: str, folder: Path, receiver: HttpReceiver, rules: str) -> AlertRun:
    file = folder / "alerts.yaml"
    file.write_text(RULES.format(url=receiver.url) + rules)
    return AlertRun(tables, str(file))


def write_samples(tables: str, end: int | None, log_start_offset: int = 0) -> None:
    """A group is at 950, and the samples of its log are these."""
    lag_of(tables, 50)
    now = datetime.now(timezone.utc)
    moments = (now - timedelta(seconds=40), now)
    start: Row = {} if end is None else {"log_start_offset": log_start_offset}
    of_topic = [sample(at, end, **start) for at in moments]
    write_rows(tables, "log_offsets", of_topic + [sample(at, 0, OFFSETS_TOPIC) for at in moments])


def lose_records(tables: str) -> None:
    write_samples(tables, 1_000, log_start_offset=970)


def delete_topic(tables: str) -> None:
    write_samples(tables, None)


def test_from_rule_to_rule_the_new_one_is_told_first_and_the_old_one_names_it(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    run = run_of(tables, tmp_path, receiver, TWO_RULES)
    lose_records(tables)
    run.round()
    delete_topic(tables)
    run.round()
    assert [(alert["rule"], alert["status"]) for alert in receiver.alerts] == [
        *(("lost", "firing"), ("gone", "firing"), ("lost", "resolved")),
    ]
    assert receiver.alerts[-1]["reason"] == (
        "now TOPIC_GONE: the topic does not exist; committed offset 950 remains"
    )
    lag_of(tables, 0)
    run.round()
    resolved = receiver.alerts[-1]
    assert (resolved["rule"], resolved["status"]) == ("gone", "resolved")
    assert resolved["reason"] == "now OK: caught up"


def test_a_rule_that_is_removed_does_not_make_the_group_well(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    lose_records(tables)
    run_of(tables, tmp_path, receiver, ONE_RULE).round()
    run_of(tables, tmp_path, receiver, "- {name: other, status: STOP}\n").round()
    assert receiver.alerts[-1]["status"] == "resolved"
    assert receiver.alerts[-1]["reason"].startswith("the rule was removed; now DATA_LOSS: ")


def test_new_values_alone_are_no_reason_to_write(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    run = run_of(tables, tmp_path, receiver, "- {name: bad, lag: '> 10'}\n")
    lag_of(tables, 50)
    run.round()
    version = DeltaTable(ALERTS.path(tables)).version()
    lag_of(tables, 60)
    run.round()
    assert [alert.reason for alert in run.alerts.values()] == ["lag is 60 (> 10)"]
    assert DeltaTable(ALERTS.path(tables)).version() == version
    lose_records(tables)
    run.round()
    (alert,) = read_alerts(TableReader(tables)).values()
    assert (alert.group_status, alert.reason) == ("DATA_LOSS", "lag is 50 (> 10)")
    assert sent_statuses(receiver) == ["firing"]
    lag_of(tables, 0, group_id="other")
    run.round()
    assert receiver.alerts[-1]["reason"] == "the group is deleted"


def test_a_table_of_an_earlier_release_gets_the_columns(
    tables: str, tmp_path: Path, receiver: HttpReceiver
) -> None:
    run = run_of(tables, tmp_path, receiver, ONE_RULE)
    lose_records(tables)
    run.round()
    path = ALERTS.path(tables)
    later = ["group_status", "previous_status", "status_since"]
    earlier = TableReader(tables).read(ALERTS.name).drop_columns(later)
    write_deltalake(path, earlier, mode="overwrite", schema_mode="overwrite")
    assert "group_status" not in {field.name for field in DeltaTable(path).schema().fields}
    (alert,) = read_alerts(TableReader(tables)).values()
    assert (alert.state, alert.group_status) == (AlertState.FIRING, None)
    write_alerts(open_alerts(tables), {alert.key: alert})
    run_of(tables, tmp_path, receiver, ONE_RULE).round()
    (alert,) = read_alerts(TableReader(tables)).values()
    assert alert.group_status == "DATA_LOSS"
    assert sent_statuses(receiver) == ["firing"]
