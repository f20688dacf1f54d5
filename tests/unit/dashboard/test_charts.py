"""The charts of a group, and its statuses over time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from urllib.parse import urlencode

from flask.testing import FlaskClient

from streaming.dashboard.group import status_changes
from streaming.lag.past_statuses import GroupStatus
from tests.support.tables.dashboard_tables import REWOUND, DashboardTables

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
STEP = timedelta(seconds=160)


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
    nobody = client.get("/c/prod/group/chart?group=nobody").get_json()
    assert set(nobody["lag"]) == {None}
    for address in ("chart", "statuses"):
        early = client.get(f"/c/prod/group/{address}?group={REWOUND}&at=2001-01-01")
        assert early.status_code == 400
        assert "the tables reach from" in early.get_json()["error"]


def test_changes_are_close_to_their_time_and_none_is_told_of_unknown_moments() -> None:
    coarse = [status_at(START + number * STEP) for number in range(9)]
    found = [
        (before.status, after.status, (after.at - START).total_seconds())
        for before, after in status_changes(status_at, coarse)
    ]
    # A sixteenth of the step is 10 s.
    assert found == [(None, "OK", 100.0), ("OK", "STOP", 1_000.0)]
