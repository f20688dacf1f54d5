"""`coordinator-state show events` and `show history`."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.views.coordinator_tables import CoordinatorTables
from tests.support.clients.command_line import call, json_lines
from tests.support.tables.event_rows import BEGIN, by_member, event_row, moved
from tests.support.tables.tables_folder import apply_micro_batch, create_tables

DELETED = 451
MEMBERS = ("search-consumer-aaaa51f4", "search-consumer-bbbb51f4")


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One rewind, and after it 451 deleted offsets of another group."""
    folder = create_tables(tmp_path_factory.mktemp("events"))
    at = {"topic": "returns", "offset_before": 7, "group_id": "returns"}
    member = {"group_id": "g", **by_member(MEMBERS[0])}
    apply_micro_batch(
        folder,
        group_events=[
            moved("offset_rewind", 990, 100, at_s=1, **by_member(MEMBERS[0])),
            event_row("member_left", at_s=2, member_count=1, **by_member(MEMBERS[1])),
            *(
                event_row("offset_deleted", at_s=3 + number / 2, partition=number % 9, **at)
                for number in range(DELETED)
            ),
        ],
        offset_commits=[
            {
                **{"group_id": "g", "topic": "t", "partition": 0, "committed_offset": number},
                **{"record_offset": number, "outcome_record_offset": number},
                **{"outcome": "committed", "is_tombstone": False, "commit_timestamp": BEGIN},
                **{"record_timestamp": BEGIN, "day": BEGIN.date()},
            }
            for number in range(150)
        ],
        group_members=[member],
        progress=[{"next_offset": 7}],
    )
    return folder


def shown(tables: str, what: str, *arguments: str) -> list[dict[str, Any]]:
    return json_lines(call("show", what, "--tables", tables, "--output", "json", *arguments))


@pytest.mark.parametrize(
    ("what", "more", "rest"),
    [("events", "353", ", --folded shows a summary"), ("history", "50", "")],
)
def test_the_newest_hundred_are_shown_and_the_others_are_counted(
    tables: str, what: str, more: str, rest: str
) -> None:
    result = call("show", what, "--tables", tables, "--output", "json")

    rows = json_lines(result)
    unlimited = call("show", what, "--tables", tables, "--output", "json", "--limit", "0")
    offsets = [row["record_offset"] for row in rows]
    assert (len(rows), offsets) == (100, sorted(offsets))
    assert len(json_lines(unlimited)) == 100 + int(more)
    assert offsets[-1] == max(row["record_offset"] for row in json_lines(unlimited))
    assert unlimited.stderr == ""
    assert result.stderr == (
        f"{more} older rows are not shown: --limit 0 shows all, --since and --until select a "
        f"period{rest}\n"
    )
    assert len(call("show", what, "--tables", tables).stdout.splitlines()) == 101
    assert len(shown(tables, what, "--limit", "7")) == 7


def test_events_are_selected_by_period_name_and_group(tables: str) -> None:
    period = ("--since", "2026-11-21T06:56:01Z", "--until", "2026-11-21T06:56:03Z")
    names = ("--event", "offset_rewind", "--event", "offset_deleted")
    of_both = shown(tables, "events", *period, *names)
    assert [row["event"] for row in of_both] == ["offset_rewind", "offset_deleted"]
    of_group = shown(tables, "events", *period, *names, "--group", "g")
    assert [row["event"] for row in of_group] == ["offset_rewind"]
    assert shown(tables, "history", "--since", "2026-11-22") == []


def test_a_summary_has_the_one_rewind_first(tables: str) -> None:
    result = call("show", "events", "--tables", tables, "--folded")
    header, first, second, third = result.stdout.splitlines()

    assert header.split() == ["first", "last", "count", "group_id", "event", "details"]
    assert first.split()[2:5] == ["1", "g", "offset_rewind"]
    # The other member has the same last four characters.
    assert first.endswith("set back from 990 to 100 by search-consumer-a51f4 at /10.0.0.1")
    assert second.startswith("2026-11-21T06:56:03.000Z  2026-11-21T06:59:48.000Z  451 ")
    assert "451 offsets deleted of 9 partitions of returns; client not recorded by Kafka" in second
    assert third.endswith("search-consumer-b51f4 at /10.0.0.1 left; 1 member afterwards")
    assert result.stderr == ""

    cut = call("show", "events", "--tables", tables, "--folded", "--limit", "1")
    assert cut.stdout.splitlines()[1].split() == first.split()
    assert cut.stderr == "2 minor rows are not shown: --limit 0 shows all\n"
    nothing = call("show", "events", "--tables", tables, "--folded", "--group", "nobody")
    assert nothing.stdout.splitlines() == ["first  last  count  group_id  event  details"]


def test_members_are_told_apart_in_text_and_whole_in_json(tables: str) -> None:
    text = call("show", "events", "--tables", tables, "--group", "g").stdout
    assert "search-consumer-a51f4" in text
    assert "search-consumer-b51f4" in text
    assert {row["member_id"] for row in shown(tables, "events", "--group", "g")} == set(MEMBERS)

    header, row = call("show", "members", "--tables", tables).stdout.splitlines()
    assert header.split()[:3] == ["group_id", "member", "member_id"]
    assert row.split()[:3] == ["g", "search-consumer-51f4", MEMBERS[0]]
    assert "member" not in shown(tables, "members")[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("groups", "--limit", "5"),
            "--limit works only with events, history and group-records, not with groups",
        ),
        (
            ("lag", "--since", "2026"),
            "--since works only with events, history and group-records, not with lag",
        ),
        (("history", "--event", "rebalance"), "--event works only with events, not with history"),
        (("history", "--folded"), "--folded works only with events, not with history"),
        (
            ("events", "--folded", "--output", "json"),
            "--folded works only with text: JSON has one object per event",
        ),
        (("events", "--event", "rewound"), "'rewound' is not one of 'group_created'"),
        (("events", "--since", "noon"), "'noon' is neither a version nor a time"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    tables: str, arguments: tuple[str, ...], message: str
) -> None:
    assert message in call("show", *arguments, "--tables", tables, exit_code=2).stderr


def test_the_python_api_selects_alike(tables: str) -> None:
    api = CoordinatorTables(tables)
    assert len(api.events()) == DELETED + 2
    assert [row.event for row in api.events("g", limit=1)] == ["member_left"]
    assert [row.event for row in api.events(event="offset_rewind")] == ["offset_rewind"]
    names = ["offset_rewind", "member_left"]
    assert [row.event for row in api.events(event=names, until="2026-11-21T06:56:01Z")] == names[:1]
    assert len(api.history("g", since=BEGIN, limit=20)) == 20
