"""The charts of a group, and its statuses over time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import urlencode

from flask.testing import FlaskClient

from streaming.dashboard.app import create_app
from streaming.dashboard.charts import status_changes
from streaming.dashboard.period import around
from streaming.lag.past_statuses import GroupStatus
from tests.support.tables.dashboard_tables import REWOUND, DashboardTables
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

REWIND = "offset_rewind"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
STEP = timedelta(seconds=160)
SECOND = timedelta(seconds=1)


def status_at(moment: datetime) -> GroupStatus:
    """A group that does not exist at first, cannot be read for a while, and stops at last."""
    after_s = (moment - START) / timedelta(seconds=1)
    if after_s < 100:
        return GroupStatus(moment, None, "the group did not exist")
    if 400 <= after_s < 700:
        return GroupStatus(moment, None, "a log partition was reloaded", is_known=False)
    return GroupStatus(moment, "OK" if after_s < 1_000 else "STOP", "")


def test_the_charts_of_a_group(client: FlaskClient, tables: DashboardTables) -> None:
    # As of the last micro-batch: no look before that falls between it and the one before.
    at = urlencode({"at": tables.after.isoformat()})
    chart = client.get(f"/c/prod/group/chart?group={REWOUND}&span=1h&{at}").get_json()
    assert len(chart["at"]) == len(chart["lag"]) == len(chart["commit_rate"]) == 120
    # Both partitions went back from ten behind to nine hundred.
    assert chart["lag"][-1] == 2 * 900
    statuses = client.get(f"/c/prod/group/statuses?group={REWOUND}&span=1h&{at}").get_json()
    assert statuses["statuses"][-1]["status"] == "REWIND"
    assert statuses["statuses"][-1]["level"] == "bad"
    # The tables begin seconds before: nothing is known of a change.
    assert statuses["changes"] == []
    first = statuses["statuses"][0]
    assert (first["status"], first["level"]) == ("not known", "none")
    assert "the tables reach from" in first["reason"]
    # The first sample was written five minutes before.
    assert chart["until"] - chart["since"] == 3_600
    assert 300 <= chart["until"] - chart["begin"] < 400
    assert chart["begin"] == chart["at"][0]
    assert chart["committed"][-1] + chart["lag"][-1] == chart["produced"][-1]
    nobody = client.get("/c/prod/group/chart?group=nobody").get_json()
    assert set(nobody["lag"]) == {None}
    for address in ("chart", "statuses"):
        early = client.get(f"/c/prod/group/{address}?group={REWOUND}&at=2001-01-01")
        assert early.status_code == 400
        assert "the tables reach from" in early.get_json()["error"]


def test_the_events_on_the_charts(client: FlaskClient, tables: DashboardTables) -> None:
    at = urlencode({"at": tables.after.isoformat()})
    chart = client.get(f"/c/prod/group/chart?group={REWOUND}&{at}").get_json()
    [mark] = chart["events"]
    assert (mark["name"], mark["count"], mark["is_heavy"]) == ("offset rewind", 1, True)
    assert "set back from 990 to 100" in mark["text"]
    assert chart["begin"] < mark["at"] == mark["until"] < chart["until"]
    assert chart["more_events"] == 0
    page = client.get(mark["address"]).get_data(as_text=True)
    assert 'aria-current="true"' not in page.partition('aria-label="Period of the charts"')[2][:300]
    assert "990" in page
    before = urlencode({"at": tables.before.isoformat()})
    assert client.get(f"/c/prod/group/chart?group={REWOUND}&{before}").get_json()["events"] == []


def test_many_rebalances_have_no_mark_and_rewinds_apart_have_their_own(tmp_path: Path) -> None:
    folder = create_tables(tmp_path / "tables")
    kinds = [*((second, "rebalance") for second in range(20)), (100, REWIND), (101, REWIND)]
    events = [
        {
            **{"group_id": "g", "event": event, "record_offset": number, "event_number": 0},
            **{"record_timestamp": START + second * SECOND, "day": START.date()},
            **{"topic": "t", "partition": 0, "offset_before": 9, "offset_after": 1},
            **{"epoch_before": number, "epoch_after": number + 1},
        }
        for number, (second, event) in enumerate([*kinds, (300, REWIND)])
    ]
    apply_micro_batch(folder, progress=[{"updated_at": START}], group_events=events)

    client = create_app({"prod": folder}).test_client()

    def marks(until_s: int) -> tuple[list[tuple[str, int]], int]:
        period = {"since": START.isoformat(), "until": (START + until_s * SECOND).isoformat()}
        chart = client.get(f"/c/prod/group/chart?{urlencode({'group': 'g', **period})}").get_json()
        return [(one["name"], one["count"]) for one in chart["events"]], chart["more_events"]

    assert marks(600) == ([("offset rewind", 2), ("offset rewind", 1)], 20)
    assert marks(5) == (6 * [("rebalance", 1)], 0)


def test_the_period_around_a_moment() -> None:
    assert around(START, START + STEP) == {
        "span": None,
        "since": "2025-12-31T23:57:00Z",
        "until": "2026-01-01T00:05:40Z",
    }


def test_changes_are_close_to_their_time_and_none_is_told_of_unknown_moments() -> None:
    coarse = [status_at(START + number * STEP) for number in range(9)]
    found = [
        (before.status, after.status, (after.at - START).total_seconds())
        for before, after in status_changes(status_at, coarse)
    ]
    # A sixteenth of the step is 10 s.
    assert found == [(None, "OK", 100.0), ("OK", "STOP", 1_000.0)]
