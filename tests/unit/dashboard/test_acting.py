"""From looking to acting: a rule that is tested against the past, and a plan of a reset."""

from __future__ import annotations

import csv
import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from starlette.testclient import TestClient

from streaming.alerts.rules import load_rules, rules_without_sinks
from streaming.dashboard import group_alert
from streaming.dashboard.group_alert import rule_of
from streaming.errors import ConfigurationError
from streaming.views.text import printable
from tests.support.browser.html import page_client, page_of, part_of
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND, DashboardTables
from tests.support.tables.tables_folder import create_tables

ALERT, PLAN = "/c/prod/group/alert", "/c/prod/group/plan"
RULE = f"""\
rules:
  - name: behind
    groups: {REWOUND}
    lag: "> 500"
    sinks: pager
sinks:
  pager: {{type: webhook, url: "${{file:/etc/passwd}}"}}
"""


def fault_of(page: str) -> str:
    return part_of(page, 'class="fault" role="alert">', "</p>")


@pytest.mark.parametrize(
    ("group", "by", "text"),
    [
        *((REWOUND, "status", "status: [REWIND]\n"), (REWOUND, "time_lag", "time_lag: ")),
        (HOSTILE, "status", "status: [HANGING_TRANSACTION]\n"),
        ("group-001", "status", "STOP, STALL]\n    for: 2m"),
        *(("!*", "lag", "lag: "), ("", "status", "status: ")),
    ],
)
def test_a_proposed_rule_is_about_the_group(
    client: TestClient, tmp_path: Path, group: str, by: str, text: str
) -> None:
    page = client.get(f"{ALERT}?{urlencode({'group': group, 'by': by})}").text
    proposed = unescape(part_of(page, "<textarea", "</textarea>").partition(">")[2])
    assert text in proposed
    assert not re.search("[\x1b\u202e]", proposed)
    if group:
        (rule,) = rule_of(proposed, group).rules
        assert rule.status if by == "status" else rule.limits.keys() == {by}
    file = tmp_path / "alerts.yaml"
    file.write_text(proposed)
    assert load_rules(file).rules == rules_without_sinks(proposed).rules


def test_a_rule_is_tested_against_the_past(
    client: TestClient, tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_alert, "_MOMENTS", 20)
    page = page_of(client, "group/alert", group=REWOUND, rule=RULE, span="1h")
    assert "behind would have fired 1 time from" in page
    assert "would be firing at the end" in page
    assert "lag is 1800 (> 500)" in page
    (link,) = re.findall(r'<th scope="row"><a href="/c/prod/(group\?[^"]*)">', page)
    query = parse_qs(urlsplit(link).query)
    assert query["group"] == [REWOUND]
    assert query["at"][0] > tables.before.isoformat()
    assert "from 990" in page_of(client, link)
    calm = page_of(client, "group/alert", group=REWOUND, rule=RULE, at=tables.before.isoformat())
    assert "behind would not have fired" in calm
    by_partition = RULE.replace("lag:", "by: partition\n    lag:")
    page = page_of(client, "group/alert", group=REWOUND, rule=by_partition)
    assert "would have fired 2 times" in page
    assert f">{printable(HOSTILE)}</a>:1</td>" in page
    monkeypatch.setattr(group_alert, "_WITHIN_S", -1.0)
    page = page_of(client, "group/alert", group=REWOUND, rule=RULE)
    assert "choose a shorter period" in fault_of(page)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("rules: [", "alerts.yaml:1: "),
        ("rules: [{name: a, sql: SELECT 1}]", "rule a: this page cannot test a rule with sql"),
        ("rules: [{name: a, tables_behind: '> 1m'}]", "cannot test a rule with tables_behind"),
        ("rules: [{name: a, lag: '> 1'}, {name: b, lag: '> 1'}]", "one rule at a time, not 2"),
        ("rules: [{name: a, lag: '> 1', groups: b}]", "its groups do not match payments"),
        ("rules: [&a {name: a, lag: '> 1', note: *a}]", "anchors and aliases are not allowed"),
        (f"rules: {4_000 * '['}", "more than 20 nested levels"),
        (f"rules: [{{name: a, note: {'x' * 4100}}}]", "bytes; at most 4,096 fit"),
        ("[" * 4000, "alerts.yaml"),
    ],
)
def test_a_wrong_rule_is_named_in_the_page(client: TestClient, rule: str, fault: str) -> None:
    assert fault in fault_of(page_of(client, "group/alert", group=REWOUND, rule=rule))


def test_a_rule_of_this_page_reads_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "s3cr3t")
    rules = rules_without_sinks(
        "sinks: {hook: {type: webhook, url: '${SECRET}'}}\n"
        "tables_stale: {sinks: hook}\n"
        "rules: [{name: a, lag: '> 1', sinks: [hook]}]"
    )
    assert list(rules.sinks) == ["stdout"]
    assert "s3cr3t" not in str(rules)
    with pytest.raises(ConfigurationError, match="expected a mapping"):
        rules_without_sinks("sinks")


def test_a_plan_goes_back_to_before_the_rewind(client: TestClient, tables: DashboardTables) -> None:
    moment = tables.before.isoformat()
    page = page_of(client, "group/plan", group=REWOUND, moment=moment, servers="b:9092")
    assert f"{REWOUND}, back to its offsets of" in page
    assert "2 partitions, 0 records replayed, 1,780 records skipped" in page
    assert f"{REWOUND} has 1 member, and Kafka resets only groups without members" in page
    command = (
        f"kafka-consumer-groups.sh --bootstrap-server b:9092 --reset-offsets --group {REWOUND}"
    )
    assert f"{command} --from-file plan.csv --dry-run" in page
    assert f"{command} --from-file plan.csv --execute" in page
    (link,) = re.findall(r'<a href="([^"]*)" download="plan.csv">', page)
    answer = client.get(link)
    assert answer.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="plan.csv"'
    rows = list(csv.reader(answer.text.splitlines()))
    assert rows == [[HOSTILE, "0", "990"], [HOSTILE, "1", "990"]]


def test_the_moment_of_a_page_is_the_state_to_go_back_to(
    client: TestClient, tables: DashboardTables, tmp_path: Path
) -> None:
    at = tables.before.isoformat()
    past = page_of(client, "group", group=REWOUND, at=at)
    assert re.search(rf'{ALERT}\?group={REWOUND}&at=[^"]*', past)
    assert re.search(rf'{PLAN}\?group={REWOUND}&at=[^"]*', past)
    answer = client.get(f"{PLAN}?{urlencode({'group': REWOUND, 'at': at})}")
    assert answer.status_code == 302
    query = parse_qs(urlsplit(answer.headers["Location"]).query)
    moment = at.replace("+00:00", "Z")
    assert query == {"group": [REWOUND], "to": ["state"], "moment": [moment]}
    assert "back to its offsets of" in client.get(answer.headers["Location"]).text
    # Empty tables have nothing to act on.
    empty = page_client(prod=create_tables(tmp_path / "tables"))
    for address in (ALERT, PLAN):
        assert empty.get(f"{address}?group=a").status_code in {200, 400}


def test_each_goal_of_a_plan(client: TestClient) -> None:
    for arguments, text in (
        ({"to": "earliest"}, "to the oldest kept records: 2 partitions"),
        ({"to": "earliest", "topics": "orders:0"}, "No offset can be reset"),
        ({"to": "time", "moment": "1m"}, "to the records since"),
    ):
        assert text in page_of(client, "group/plan", group=REWOUND, **arguments)
    # Without a rewind in the history there is no moment to begin with.
    assert "choose a moment" in page_of(client, "group/plan", group="group-001")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({"group": "nobody", "to": "earliest"}, "unknown group nobody"),
        ({"group": REWOUND, "moment": "soon"}, "'soon' is neither a version nor a time"),
        ({"group": REWOUND, "moment": "2100-01-01"}, "is in the future"),
        ({"group": REWOUND, "moment": "2001-01-01"}, "2001"),
        ({"group": REWOUND, "to": "earliest", "topics": ":"}, "neither TOPIC nor TOPIC:PARTITION"),
        ({"group": REWOUND, "to": "earliest", "topics": "x"}, "no committed offset of x"),
    ],
)
def test_a_plan_that_is_not_possible(
    client: TestClient, arguments: dict[str, str], fault: str
) -> None:
    address = f"{PLAN}?{urlencode(arguments)}"
    assert fault in fault_of(unescape(client.get(address).text))
    answer = client.get(f"{address}&format=csv")
    assert answer.status_code == 400
    assert fault in fault_of(unescape(answer.text))
