"""From looking to acting: a rule that is tested against the past, and a plan of a reset."""

from __future__ import annotations

import csv
import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from flask.testing import FlaskClient

from streaming.alerts.rules_file import load_rules, rules_without_sinks
from streaming.dashboard import group_alert
from streaming.dashboard.app import create_app
from streaming.dashboard.group_alert import rule_of
from streaming.errors import ConfigurationError
from streaming.views.text import printable
from tests.support.tables.dashboard_tables import HOSTILE, MEMBER, REWOUND, DashboardTables
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


def text_of(client: FlaskClient, page: str, /, code: int = 200, **arguments: str) -> str:
    answer = client.get(f"{page}?{urlencode(arguments)}")
    assert answer.status_code == code, answer.text
    return unescape(answer.text)


def fault_of(page: str) -> str:
    found = re.search(r'class="fault" role="alert">(.*?)</p>', page)
    assert found is not None, page
    return found[1]


def proposed(client: FlaskClient, **arguments: str) -> str:
    page = client.get(f"{ALERT}?{urlencode(arguments)}").text
    found = re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL)
    assert found is not None
    return unescape(found[1])


@pytest.mark.parametrize("group", [REWOUND, HOSTILE, "group-001", "nobody", "!*", ""])
@pytest.mark.parametrize("by", ["status", "lag", "time_lag"])
def test_a_proposed_rule_is_about_the_group(
    client: FlaskClient, tmp_path: Path, group: str, by: str
) -> None:
    text = proposed(client, group=group, by=by)
    assert not re.search("[\x1b\u202e]", text)
    if group:
        (rule,) = rule_of(text, group).rules
        assert rule.status if by == "status" else rule.limits.keys() == {by}
    file = tmp_path / "alerts.yaml"
    file.write_text(text)
    assert load_rules(file).rules == rules_without_sinks(text).rules


def test_the_present_trouble_is_proposed(client: FlaskClient) -> None:
    assert "status: [REWIND]\n" in proposed(client, group=REWOUND)
    assert "status: [HANGING_TRANSACTION]\n" in proposed(client, group=HOSTILE)
    assert "STOP, STALL]\n    for: 2m" in proposed(client, group="group-001")


def test_a_rule_is_tested_against_the_past(
    client: FlaskClient, tables: DashboardTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_alert, "_MOMENTS", 20)
    page = text_of(client, ALERT, group=REWOUND, rule=RULE, span="1h")
    assert "behind would have fired 1 time from" in page
    assert "would be firing at the end" in page
    assert "lag is 1800 (> 500)" in page
    found = re.search(r'<th scope="row"><a href="([^"]*)">', page)
    assert found is not None
    query = parse_qs(urlsplit(found[1]).query)
    assert query["group"] == [REWOUND]
    assert "set back" in client.get(found[1]).text or "from 990" in client.get(found[1]).text
    assert query["at"][0] > tables.before.isoformat()
    calm = text_of(client, ALERT, group=REWOUND, rule=RULE, at=tables.before.isoformat())
    assert "behind would not have fired" in calm
    by_partition = RULE.replace("lag:", "by: partition\n    lag:")
    page = text_of(client, ALERT, group=REWOUND, rule=by_partition)
    assert "would have fired 2 times" in page
    assert f">{printable(HOSTILE)}</a>:1</td>" in page
    # The condition holds at the last moment only.
    page = text_of(client, ALERT, group=REWOUND, rule=RULE.replace("lag:", "for: 1m\n    lag:"))
    assert "behind would not have fired" in page


def test_a_test_takes_a_bounded_time(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_alert, "_WITHIN_S", -1.0)
    page = text_of(client, ALERT, group=REWOUND, rule=RULE)
    assert "choose a shorter period" in fault_of(page)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("rules: [", "alerts.yaml:1: "),
        ("rules: [{name: a, lagg: 1}]", "alerts.yaml:1: rules.a.lagg: unknown key"),
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
def test_a_wrong_rule_is_named_in_the_page(client: FlaskClient, rule: str, fault: str) -> None:
    assert fault in fault_of(text_of(client, ALERT, group=REWOUND, rule=rule))


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


def test_other_sites_may_not_lead_to_a_test(client: FlaskClient) -> None:
    headers = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    assert client.get(f"{ALERT}?group={REWOUND}", headers=headers).status_code == 403


def test_a_plan_goes_back_to_before_the_rewind(
    client: FlaskClient, tables: DashboardTables
) -> None:
    page = text_of(client, PLAN, group=REWOUND, moment=tables.before.isoformat(), servers="b:9092")
    assert f"{REWOUND}, back to its offsets of" in page
    assert "2 partitions, 0 records replayed, 1,780 records skipped" in page
    assert f"{REWOUND} has 1 member, and Kafka resets only groups without members" in page
    assert printable(MEMBER)[:10] in page or printable(HOSTILE)[:10] in page
    command = (
        f"kafka-consumer-groups.sh --bootstrap-server b:9092 --reset-offsets --group {REWOUND}"
    )
    assert f"{command} --from-file plan.csv --dry-run" in page
    assert f"{command} --from-file plan.csv --execute" in page
    found = re.search(r'<a href="([^"]*)" download="plan.csv">', page)
    assert found is not None
    answer = client.get(found[1])
    assert answer.content_type == "text/csv; charset=utf-8"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="plan.csv"'
    assert list(csv.reader(answer.text.splitlines())) == [
        [HOSTILE, "0", "990"],
        [HOSTILE, "1", "990"],
    ]


def test_the_moment_of_a_page_is_the_state_to_go_back_to(
    client: FlaskClient, tables: DashboardTables
) -> None:
    answer = client.get(f"{PLAN}?{urlencode({'group': REWOUND, 'at': tables.before.isoformat()})}")
    assert answer.status_code == 302
    query = parse_qs(urlsplit(answer.location).query)
    moment = tables.before.isoformat().replace("+00:00", "Z")
    assert query == {"group": [REWOUND], "to": ["state"], "moment": [moment]}
    assert "back to its offsets of" in client.get(answer.location).text


def test_each_goal_of_a_plan(client: FlaskClient) -> None:
    page = text_of(client, PLAN, group=REWOUND, to="earliest")
    assert "to the oldest kept records: 2 partitions" in page
    page = text_of(client, PLAN, group=REWOUND, to="earliest", topics="orders:0")
    assert "0 partitions" in page
    assert "No offset can be reset" in page
    page = text_of(client, PLAN, group=REWOUND, to="time", moment="1m")
    assert "to the records since" in page
    # Without a rewind in the history there is no moment to begin with.
    page = text_of(client, PLAN, group="group-001")
    assert "choose a moment" in page


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
    client: FlaskClient, arguments: dict[str, str], fault: str
) -> None:
    address = f"{PLAN}?{urlencode(arguments)}"
    assert fault in fault_of(unescape(client.get(address).text))
    answer = client.get(f"{address}&format=csv")
    assert answer.status_code == 400
    assert fault in fault_of(unescape(answer.text))


def test_a_group_leads_to_both(client: FlaskClient, tables: DashboardTables) -> None:
    page = text_of(client, "/c/prod/group", group=REWOUND)
    assert f"{ALERT}?group={REWOUND}" in page
    assert f"{PLAN}?group={REWOUND}" in page
    past = text_of(client, "/c/prod/group", group=REWOUND, at=tables.before.isoformat())
    assert re.search(rf'{PLAN}\?group={REWOUND}&at=[^"]*', past)


def test_empty_tables_have_nothing_to_act_on(tmp_path: Path) -> None:
    client = create_app({"prod": create_tables(tmp_path / "tables")}).test_client()
    for page in (ALERT, PLAN):
        assert client.get(f"{page}?group=a").status_code in {200, 400}
