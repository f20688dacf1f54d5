"""The status of a group in a partition, and the reason, by the rules of our own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coordinator_state.insight.group_status import Cause, StatusRules
from coordinator_state.insight.lag import GONE, NO_SAMPLE
from coordinator_state.insight.partition_facts import PartitionFacts
from coordinator_state.insight.partition_status import partition_status

AT_MS = 1_795_500_760_000
"""06:12:40 UTC."""
WELL: dict[str, Any] = {
    **{"at_ms": AT_MS, "behind_ms": 900, "has_members": True, "topic_state": "present"},
    "group_type": "classic",
    **{"has_member": True, "is_left_out": False, "uncommitted_ms": None, "recreated_at_ms": None},
    "gone_at_ms": None,
    **{"is_lag_lower_bound": False},
    **{"committed_offset": 1_000, "log_start_offset": 0, "last_stable_offset": 1_000},
    **{"log_end_offset": 1_000, "sample_age_ms": 3_000},
    **{"lag": 0, "lag_to_last_stable": 0, "data_lost": 0},
    **{"time_lag_ms": 0, "time_lag_at_least_ms": 0, "time_lag_unknown": None},
    **{"retention_margin_ms": None, "time_to_catch_up_ms": 0},
    **{"commit_rate_per_s": 10.0, "produce_rate_per_s": 10.0, "present_rate_per_s": 10.0},
    **{"commit_age_ms": 4_000, "commits": 121, "commits_from_ms": 604_000},
    **{"usual_commit_ms": 5_000, "commit_waits": 120, "usual_move_ms": 5_000, "move_waits": 120},
    **{"longest_move_ms": 20_000, "is_member_busy": False, "rest_ms": None},
    **dict.fromkeys(("move_rest_ms", "only_rest_ms", "only_move_rest_ms", "rest_in_turn_ms")),
    **dict.fromkeys(("ended_at_ms", "usual_return_ms", "max_poll_ms")),
    **{"usual_hold_ms": None, "holds": 0, "is_often_held": False, "is_out_of_range": False},
    "unsubscribed_expires_in_ms": None,
    **{"same_commits": 1, "moved_at_ms": AT_MS - 4_000},
    **dict.fromkeys(("rewound_from", "rewind_from", "rewind_to", "rewind_ago_ms")),
    **{"aborted": 0, "aborted_from_ms": None, "aborted_ago_ms": None},
    **dict.fromkeys(("held_ms", "pending_producer_id", "pending_client_id", "expires_in_ms")),
    **{"pending_transactional_id": None, "is_marker_lost": False, "overdue_ms": None},
}
OLD = {"time_lag_ms": 90_000, "time_lag_at_least_ms": 90_000}
BEHIND = OLD | {
    **{"lag": 500, "lag_to_last_stable": 500},
    **{"last_stable_offset": 1_500, "log_end_offset": 1_500},
}
AT_STABLE = BEHIND | {"lag_to_last_stable": 0, "last_stable_offset": 1_000}
STILL = BEHIND | {"same_commits": 13, "moved_at_ms": AT_MS - 64_000}
LONG_STILL = STILL | {
    **{"time_lag_ms": 301_000, "time_lag_at_least_ms": 301_000, "moved_at_ms": AT_MS - 301_000}
}
UNREAD = BEHIND | {
    **{"committed_offset": None, "uncommitted_ms": 60_000, "commit_age_ms": 60_000},
    **{"is_lag_lower_bound": True, "produce_rate_per_s": 10.0, "commit_rate_per_s": 0.0},
}
LONG_UNREAD = (
    UNREAD
    | {"uncommitted_ms": 400_000, "commit_age_ms": 400_000}
    | {**{"time_lag_ms": 301_000, "time_lag_at_least_ms": 301_000}}
)
NO_OWNER = {"has_member": False}
NEW = {"is_lag_lower_bound": False}
RECREATED = {"recreated_at_ms": AT_MS - 60_000}
AGAIN = "the topic was deleted and created again at 06:11:40 UTC"
UNREAD_TEXT = "at least 500 behind, oldest 90 s, +10/s"
REWOUND = BEHIND | {
    **{
        "rewound_from": 1_400,
        "read_before_to": 1_400,
        "rewind_from": 1_200,
        "rewind_to": 900,
        "rewind_ago_ms": 11_000,
    }
}
ABORTED = BEHIND | {
    **{"commit_age_ms": 120_000, "moved_at_ms": AT_MS - 120_000},
    **{"aborted": 41, "aborted_from_ms": 120_000, "aborted_ago_ms": 3_000},
}
HELD = BEHIND | {
    **{"lag": 13_880, "held_ms": 120_000, "commit_age_ms": 121_000},
    **{"pending_producer_id": 2, "pending_client_id": "fraud-check-consumer"},
    **{"moved_at_ms": AT_MS - 121_000, "present_rate_per_s": 75.0},
}
NO_MEMBERS = {"has_members": False}
DELETED_SOON = BEHIND | {"retention_margin_ms": 600_000}
DAY_MS = 86_400_000
ENDED = BEHIND | NO_MEMBERS | {"ended_at_ms": AT_MS - 1_200_000}
# Parts of reasons.
OPEN, CLIENT = "open transaction of producer 2", "fraud-check-consumer"
LATE, LATEST = "500 behind, oldest 90 s", "13,880 behind, oldest 90 s, +75/s"
LATER = f"{LATE}, +10/s"
ENDED_TEXT = (
    "the members left at 05:52:40 UTC, after they had read everything; when they come back is not "
    "known yet; 500 behind, oldest 20 min, +10/s"
)


def time_lag(ms: int | None, at_least_ms: int | None = None) -> dict[str, int | None]:
    return {"time_lag_ms": ms, "time_lag_at_least_ms": at_least_ms if ms is None else ms}


def silent(age_ms: int) -> dict[str, int]:
    return {
        **{"commit_age_ms": age_ms, "moved_at_ms": AT_MS - age_ms},
        "commits_from_ms": 600_000 + age_ms,
    }


def pace(usual_ms: int | None, waits: int = 3) -> dict[str, Any]:
    """The usual time until a record is committed, and the waits that show it."""
    return {
        **{"usual_commit_ms": usual_ms, "commit_waits": waits},
        **{"usual_move_ms": usual_ms, "move_waits": waits},
    }


def single(age_ms: int) -> dict[str, Any]:
    """Behind, after a single commit."""
    commit = {"commits": 1, "commits_from_ms": age_ms, "commit_age_ms": age_ms} | pace(None, 0)
    return BEHIND | commit | {"moved_at_ms": None, "commit_rate_per_s": 0.0}


@pytest.mark.parametrize(
    ("facts", "status", "reason"),
    [
        ({}, "OK", "caught up"),
        # A consumer with assign() has no members.
        (NO_MEMBERS, "OK", "caught up; the group has no members"),
        (NO_MEMBERS | silent(301_000), "IDLE", "caught up; no members"),
        (
            NO_MEMBERS | silent(400_000) | pace(150_000),
            *("OK", "caught up; the group has no members"),
        ),
        (NO_MEMBERS | BEHIND | time_lag(900), "OK", "500 behind, oldest 0.9 s"),
        ({"lag": None, "time_lag_unknown": NO_SAMPLE}, "UNKNOWN", "the log was not sampled yet"),
        ({"behind_ms": 121_000}, "UNKNOWN", "the tables are 2 min behind __consumer_offsets"),
        (
            {"behind_ms": None},
            "UNKNOWN",
            "the delay of the tables is unknown: the log end of __consumer_offsets has no recent "
            "sample",
        ),
        # Without a committed offset
        (
            *(UNREAD | {"lag": 0, "time_lag_ms": 0, "time_lag_at_least_ms": 0}, "OK"),
            "no commit yet, and no new records",
        ),
        (UNREAD | time_lag(45_000), "OK", "no commit yet; at least 500 behind, oldest 45 s"),
        (
            *(UNREAD, "WARN"),
            f"no committed offset for 60 s, although a member has the partition; {UNREAD_TEXT}",
        ),
        (LONG_UNREAD, "STOP", ""),
        (LONG_UNREAD | {"max_poll_ms": 60_000}, "STOP", ""),
        (LONG_UNREAD | {"max_poll_ms": 900_000}, "WARN", ""),
        (
            *(LONG_UNREAD | NO_OWNER, "WARN"),
            "no committed offset, and no member has the partition; at least 500 behind, oldest "
            "5 min, +10/s",
        ),
        (
            *(UNREAD | NO_OWNER | NO_MEMBERS | NEW | time_lag(0), "WARN"),
            "no committed offset, and the group has no members: a start with "
            "auto.offset.reset=latest skips its records; 500 behind, oldest 0 s, +10/s",
        ),
        (UNREAD | {"lag_to_last_stable": 0, "held_ms": None}, "PENDING", ""),
        (UNREAD | {"lag": None, "time_lag_unknown": NO_SAMPLE}, "UNKNOWN", NO_SAMPLE),
        (
            *(UNREAD | {"topic_state": "gone"}, "TOPIC_GONE"),
            "the topic does not exist; a member has it assigned",
        ),
        (
            *({"topic_state": "gone", "gone_at_ms": AT_MS - 60_000}, "TOPIC_GONE"),
            "the topic was deleted by 06:11:40 UTC; committed offset 1,000 remains",
        ),
        (
            *(UNREAD | NO_OWNER | {"topic_state": "gone"}, "TOPIC_GONE"),
            "the topic does not exist; a member subscribes to it",
        ),
        # The topic was created again.
        (
            *(UNREAD | RECREATED | time_lag(45_000), "OK"),
            f"{AGAIN}; no committed offset since; at least 500 behind, oldest 45 s",
        ),
        (
            *(UNREAD | RECREATED | NEW | {"committed_offset": 70}, "WARN"),
            f"{AGAIN}; committed offset 70 is of the deleted topic, although a member has the "
            "partition: a consumer that starts there skips the records before it; 500 behind, "
            "oldest 90 s, +10/s",
        ),
        # A log end that is not sampled any more shows no lag.
        ({"sample_age_ms": 312_000}, "UNKNOWN", "the log end was sampled 5.2 min ago"),
        # As fast as it is written to, and not getting behind.
        (BEHIND, "OK", LATE),
        (
            BEHIND | {"commit_rate_per_s": 8.25},
            *("WARN", f"reads 8.25 records/s, producers write 10 records/s; {LATE}, +1.75/s"),
        ),
        (
            DELETED_SOON | {"time_to_catch_up_ms": None},
            *("WARN", f"unread records will be deleted in 10 min; {LATE}"),
        ),
        (DELETED_SOON | {"time_to_catch_up_ms": 500_000}, "OK", ""),
        (BEHIND | silent(46_000), "STOP", f"no commit for 46 s, usually within 5 s; {LATER}"),
        # Records that were just produced need no commit.
        (
            *(BEHIND | silent(46_000) | {"is_left_out": True}, "STOP"),
            f"no member has the partition; no commit for 46 s, usually within 5 s; {LATER}",
        ),
        (
            *(REWOUND | NO_MEMBERS | silent(46_000), "STOP"),
            "went back 11 s ago from 1,200 to 900; now 1,000; the group has no members; no commit "
            f"for 46 s, usually within 5 s; {LATER}",
        ),
        (BEHIND | silent(600_000) | time_lag(2_000), "OK", ""),
        # A job that rests for 24 min of each half hour.
        (
            BEHIND | silent(1_200_000) | {"rest_ms": 1_800_000},
            *("OK", f"no commit for 20 min; it usually rests for up to 30 min; {LATE}"),
        ),
        (
            BEHIND | silent(1_801_000) | time_lag(1_801_000) | {"rest_ms": 1_800_000},
            *("STOP", "no commit for 30 min, usually within 30 min; .*"),
        ),
        (
            BEHIND | silent(60_000) | {"rest_ms": 6_000},
            *("STOP", f"no commit for 60 s, usually within 5 s; {LATER}"),
        ),
        # It has rested once, and ran before that as long as since.
        (
            BEHIND | silent(1_200_000) | time_lag(1_200_000) | {"only_rest_ms": 1_800_000},
            "UNKNOWN",
            "no commit for 20 min; it has rested like this before, so it may rest for up to "
            "30 min; 500 behind, oldest 20 min, +10/s",
        ),
        (
            BEHIND | silent(1_801_000) | time_lag(1_801_000) | {"only_rest_ms": 1_800_000},
            *("STOP", "no commit for 30 min, usually within 5 s; .*"),
        ),
        (
            LONG_STILL | {"only_move_rest_ms": 1_800_000},
            "UNKNOWN",
            "no other offset for 5 min; it has rested like this before, so it may rest for up to "
            "30 min; 500 behind, oldest 5 min, +10/s",
        ),
        (LONG_STILL | {"only_move_rest_ms": 300_000}, "STALL", ""),
        # The members of a job left after it had read everything.
        (ENDED | silent(1_200_000) | time_lag(1_200_000), "UNKNOWN", ENDED_TEXT),
        (
            *(ENDED | {"ended_at_ms": AT_MS - DAY_MS - 1} | silent(DAY_MS), "WARN"),
            "the members left at .*",
        ),
        (
            ENDED | silent(46_000) | {"retention_margin_ms": 600_000, "time_to_catch_up_ms": None},
            *("WARN", f"unread records will be deleted in 10 min; {LATER}"),
        ),
        # Those of another group come back within a minute after records.
        (
            BEHIND | NO_MEMBERS | silent(600_000) | {"usual_return_ms": 60_000},
            "OK",
            f"the group has no members; they usually come back within 60 s; {LATE}",
        ),
        # A rest that is over is not the reason.
        (
            BEHIND | NO_MEMBERS | silent(600_000) | {"usual_return_ms": 60_000, "rest_ms": 6_000},
            "OK",
            f"the group has no members; they usually come back within 60 s; {LATE}",
        ),
        (
            BEHIND | NO_MEMBERS | silent(600_000) | time_lag(181_000) | {"usual_return_ms": 60_000},
            *("STOP", "the group has no members; no commit for 10 min, .*"),
        ),
        # Five minutes are enough for those of every group.
        (
            BEHIND
            | NO_MEMBERS
            | silent(600_000)
            | time_lag(301_000)
            | {"usual_return_ms": 1_200_000},
            *("STOP", ""),
        ),
        # Every ten minutes.
        (
            BEHIND
            | time_lag(400_000)
            | pace(600_000)
            | {"commits": 2, "commits_from_ms": 1_000_000}
            | {"commit_age_ms": 400_000},
            *("OK", ""),
        ),
        # The first waits may be shorter than usual.
        (BEHIND | silent(200_000) | time_lag(200_000) | pace(2_000, 2), "OK", ""),
        (BEHIND | silent(301_000) | time_lag(301_000) | pace(2_000, 2), "STOP", ""),
        # The usual time between commits is not known yet.
        (single(85_000), "OK", ""),
        (
            single(301_000) | time_lag(None, 10_000),
            "UNKNOWN",
            "no commit for 5 min; the usual time between its commits is not known yet; 500 behind, "
            "oldest at least 10 s, +10/s",
        ),
        (
            single(3_601_000) | time_lag(None, 10_000),
            *("STOP", "no commit for 60 min; 500 behind, oldest at least 10 s, +10/s"),
        ),
        (
            single(301_000)
            | time_lag(301_000)
            | {"retention_margin_ms": 600_000}
            | {"time_to_catch_up_ms": None},
            *("WARN", ""),
        ),
        # The members of a share group have a minute to acknowledge a record.
        (single(301_000) | time_lag(301_000) | {"group_type": "share"}, "STOP", ""),
        (STILL, "STALL", f"13 commits since 06:11:36 UTC, all at offset 1,000; {LATER}"),
        (
            STILL | {"moved_at_ms": None, "same_commits": 121},
            *("STALL", f"121 commits in the last 10 min, all at offset 1,000; {LATER}"),
        ),
        (STILL | time_lag(None, 600_000), "STALL", ""),
        (STILL | time_lag(40_000), "OK", ""),
        # It works on a record for half a minute, and commits meanwhile.
        (STILL | pace(31_000), "OK", ""),
        (STILL | pace(None, 0), "OK", ""),
        # The member reads one partition after the other.
        (STILL | {"is_member_busy": True}, "OK", ""),
        (LONG_STILL | {"is_member_busy": True}, "STALL", ""),
        (LONG_STILL | {"is_member_busy": True, "longest_move_ms": 200_000}, "OK", ""),
        (STILL | {"move_rest_ms": 70_000}, "OK", ""),
        (STILL | {"rest_in_turn_ms": 35_000}, "OK", ""),
        (STILL | {"rest_in_turn_ms": 30_000, "move_rest_ms": 60_000}, "STALL", ""),
        (BEHIND | silent(80_000) | {"rest_in_turn_ms": 45_000}, "OK", ""),
        (STILL | {"moved_at_ms": AT_MS - 22_000}, "OK", ""),
        # The last commit was before there was anything to read.
        (STILL | time_lag(44_000) | {"commit_age_ms": 44_500}, "OK", ""),
        (
            ABORTED,
            "STALL",
            "41 commits in the last 2 min, all aborted; committed offset unchanged since "
            f"06:10:40 UTC; {LATER}",
        ),
        # A transaction may fail once.
        (ABORTED | {"aborted": 1, "commit_age_ms": 40_000}, "OK", ""),
        (ABORTED | {"commit_age_ms": 29_000}, "OK", ""),
        (
            ABORTED | {"aborted_ago_ms": 60_000},
            "STOP",
            f"no commit for 60 s, usually within 5 s; 41 commits aborted before that; {LATER}",
        ),
        (HELD, "PENDING", f"commits held for 2 min by an {OPEN} (client {CLIENT}); {LATEST}"),
        (HELD | {"held_ms": 29_000, "commit_age_ms": 30_000, "lag": 1} | time_lag(900), "OK", ""),
        # Its transactions usually take a minute.
        (
            HELD
            | pace(60_000)
            | {"commit_age_ms": 60_000, "held_ms": 60_000, "commit_rate_per_s": 75.0},
            *("OK", ""),
        ),
        (HELD | {"lag": None, "time_lag_unknown": NO_SAMPLE}, "PENDING", f"commits held.*{OPEN}"),
        # It goes on without the transaction.
        (HELD | {"commit_age_ms": 4_000, "commit_rate_per_s": 75.0}, "OK", ""),
        # A transaction that has just begun is not the cause, but it is named.
        (HELD | {"held_ms": 5_000}, "STOP", f"no commit for 2 min.*; commits held for 5 s.*{OPEN}"),
        (
            HELD | {"held_ms": 901_000},
            "HANGING_TRANSACTION",
            f"commits held for 15 min by an {OPEN} (client {CLIENT}); {LATEST}",
        ),
        (
            AT_STABLE | silent(100_000),
            "PENDING",
            "a transaction in the log has been open for 90 s: last stable offset 1,000, log end "
            f"1,500; {LATER}",
        ),
        # Nobody knows its transactions, but the default of their time-out.
        (AT_STABLE | time_lag(59_000), "OK", ""),
        (AT_STABLE | time_lag(60_000) | {"usual_hold_ms": 9_000, "holds": 3}, "PENDING", ""),
        # Transactions of this log usually take a minute, or the first one of its samples is open.
        (AT_STABLE | {"usual_hold_ms": 60_000, "holds": 3, "is_often_held": True}, "OK", ""),
        (AT_STABLE | {"is_often_held": True}, "OK", ""),
        (
            AT_STABLE | {"is_often_held": True} | time_lag(901_000),
            "UNKNOWN",
            "a transaction in the log has been open for 15 min; the usual time of its transactions "
            "is not known yet; 500 behind, oldest 15 min",
        ),
        (AT_STABLE | {"is_often_held": True} | time_lag(3_601_000), "HANGING_TRANSACTION", ""),
        (
            AT_STABLE
            | silent(1_201_000)
            | time_lag(1_200_000)
            | pace(1_200_000)
            | {"usual_hold_ms": 1_200_000, "holds": 3, "is_often_held": True},
            *("OK", ""),
        ),
        # It reads what is not committed.
        (AT_STABLE | {"last_stable_offset": 900}, "OK", ""),
        (
            AT_STABLE | time_lag(None, 901_000),
            "HANGING_TRANSACTION",
            "a transaction in the log has been open for at least 15 min: last stable offset "
            "1,000, log end 1,500; 500 behind, oldest at least 15 min",
        ),
        # It has nothing to read.
        (AT_STABLE | silent(100_000) | time_lag(None, 10_000), "OK", ""),
        (REWOUND, "REWIND", f"went back 11 s ago from 1,200 to 900; now 1,000; {LATE}"),
        (REWOUND | {"lag": 0}, "OK", "caught up"),
        (REWOUND | {"committed_offset": 1_400}, "OK", ""),
        (
            BEHIND | {"data_lost": 20, "log_start_offset": 1_020},
            "DATA_LOSS",
            "20 records deleted before being read: committed 1,000, log start 1,020",
        ),
        # Before the reset, the group had read the deleted records.
        (REWOUND | {"data_lost": 20, "log_start_offset": 1_020}, "REWIND", ""),
        # An administrator had skipped them.
        (
            REWOUND | {"data_lost": 20, "log_start_offset": 1_020, "read_before_to": 1_000},
            *("DATA_LOSS", ""),
        ),
        (REWOUND | {"data_lost": 420, "log_start_offset": 1_420}, "DATA_LOSS", ""),
        # A sink commits full files; producers write less than usual.
        *(
            (
                BEHIND
                | silent(waited_s * 1_000)
                | time_lag(waited_s * 1_000)
                | pace(60_000)
                | {"usual_move_records": records}
                | members,
                status,
                "",
            )
            for waited_s, records, members, status in (
                (200, 400, {}, "OK"),
                (200, 399, {}, "STOP"),
                (481, 400, {}, "STOP"),
                (200, None, {}, "STOP"),
                (200, 400, NO_MEMBERS | {"has_member": False}, "STOP"),
            )
        ),
        # Half an hour later than other groups at most.
        *(
            (
                BEHIND
                | silent(waited_s * 1_000)
                | time_lag(waited_s * 1_000)
                | pace(1_800_000)
                | {"usual_move_records": 400},
                status,
                "",
            )
            for waited_s, status in ((7_200, "OK"), (7_201, "STOP"))
        ),
        # The first record takes minutes of work.
        (BEHIND | {"move_waits": 0, "commit_rate_per_s": 0.0}, "OK", ""),
        # A later record may delete the offset, or end the transaction.
        ({"topic_state": "gone", "lag": None, "behind_ms": 121_000}, "UNKNOWN", ""),
        (
            {"is_out_of_range": True, "log_end_offset": 500},
            "OUT_OF_RANGE",
            "committed 1,000, but the log ends at 500: a consumer that starts there resets it "
            "(auto.offset.reset)",
        ),
        (NO_MEMBERS | {"expires_in_ms": DAY_MS - 1}, "EXPIRING", "offset 1,000 expires in 24 h"),
        ({"expires_in_ms": -5}, "EXPIRING", "offset 1,000 is due to expire"),
        ({"expires_in_ms": DAY_MS}, "OK", "caught up"),
        (
            HELD | {"pending_transactional_id": "fraud-check"},
            "PENDING",
            "commits held for 2 min by an open transaction of fraud-check (producer 2, client "
            f"{CLIENT}).*behind",
        ),
        (
            HELD | {"is_marker_lost": True, "pending_client_id": None},
            "HANGING_TRANSACTION",
            "commits held for 2 min by a transaction of producer 2 that its coordinator has ended: "
            "abort it by hand; .*behind",
        ),
        (
            BEHIND | silent(4_000_000) | {"unsubscribed_expires_in_ms": 5 * DAY_MS},
            *("OK", "no member subscribes to the topic any more; the offset expires in 5 d"),
        ),
        # The time-out of the transaction is known.
        (HELD | {"held_ms": 901_000, "overdue_ms": -2_000_000}, "PENDING", ""),
        (HELD | {"overdue_ms": 31_000}, "HANGING_TRANSACTION", ""),
        # Only its application ends a two-phase commit, also one that has long been prepared.
        (
            HELD | {"held_ms": 90_000_000, "is_two_phase_commit": True},
            "PENDING",
            "commits held for 25 h by a prepared or open transaction (2PC) of producer 2.*behind",
        ),
    ],
)
def test_a_partition(facts: dict[str, Any], status: str, reason: str) -> None:
    verdict = partition_status(PartitionFacts(**{**WELL, **facts}), StatusRules())
    assert verdict.status.value == status, verdict.reason
    if ".*" in reason:
        assert all(part in verdict.reason for part in reason.split(".*"))
    elif reason:
        assert verdict.reason == reason


@pytest.mark.parametrize(
    ("rule", "facts", "after_ms"),
    [
        ("stop_after_ms", BEHIND | silent(46_000), 47_000),
        ("slow_after_ms", STILL, 91_000),
        ("pace_unknown_after_ms", single(301_000) | time_lag(301_000), 302_000),
        ("stop_unknown_after_ms", single(3_601_000) | time_lag(3_601_000), 3_602_000),
        ("aborting_after_ms", ABORTED, 121_000),
        ("pending_after_ms", HELD | {"lag": None, "time_lag_unknown": "x"}, 121_000),
        ("idle_after_ms", NO_MEMBERS | silent(301_000), 302_000),
        ("hanging_after_ms", {"held_ms": 901_000}, 902_000),
        ("expiring_within_ms", {"expires_in_ms": 1_000}, 999),
    ],
)
def test_each_limit_can_be_set(rule: str, facts: dict[str, Any], after_ms: int) -> None:
    known = PartitionFacts(**{**WELL, **facts})
    before = partition_status(known, StatusRules()).status
    assert before.value != "OK"
    assert partition_status(known, replace(StatusRules(), **{rule: after_ms})).status is not before


def test_a_transaction_that_may_take_a_day_is_pending_after_an_hour() -> None:
    rules = replace(StatusRules(), hanging_after_ms=DAY_MS)
    held = AT_STABLE | {"is_often_held": True}
    statuses = [
        partition_status(PartitionFacts(**{**WELL, **held, **time_lag(ms)}), rules).status.value
        for ms in (3_599_000, 3_601_000, DAY_MS - 1, DAY_MS + 1)
    ]
    assert statuses == ["OK", "PENDING", "PENDING", "HANGING_TRANSACTION"]


@pytest.mark.parametrize(
    ("facts", "cause"),
    [
        ({}, None),
        (BEHIND, None),
        ({"behind_ms": 121_000}, None),
        ({"topic_state": GONE}, Cause.TOPIC_DELETED),
        (BEHIND | {"is_out_of_range": True}, None),
        (BEHIND | {"is_out_of_range": True} | RECREATED, Cause.TOPIC_RECREATED),
        (BEHIND | {"data_lost": 5}, Cause.DATA_LOSS),
        (HELD, Cause.OPEN_TRANSACTION),
        (HELD | {"is_marker_lost": True}, Cause.OPEN_TRANSACTION),
        (AT_STABLE, Cause.OPEN_TRANSACTION),
        (ABORTED, Cause.ABORTED_TRANSACTIONS),
        (BEHIND | silent(90_000), Cause.NO_COMMITS),
        (BEHIND | silent(90_000) | NO_MEMBERS, Cause.NO_MEMBERS),
        # A consumer with assign() is no member.
        (BEHIND | silent(90_000) | NO_MEMBERS | {"is_simple": True}, Cause.NO_COMMITS),
        (BEHIND | silent(90_000) | {"is_left_out": True}, Cause.NO_OWNER),
        (REWOUND | silent(90_000) | NO_MEMBERS, Cause.OFFSET_REWIND),
        (REWOUND, Cause.OFFSET_REWIND),
        (REWOUND | {"is_reset": True}, Cause.OFFSET_RESET),
        (single(310_000) | time_lag(310_000), Cause.NO_COMMITS),
        (ENDED | silent(1_200_000) | time_lag(1_200_000), Cause.NO_MEMBERS),
        (STILL, Cause.SAME_OFFSET),
        (UNREAD, Cause.NO_COMMITTED_OFFSET),
        (UNREAD | RECREATED, Cause.TOPIC_RECREATED),
        (DELETED_SOON, None),
    ],
)
def test_a_verdict_names_the_cause_that_its_rule_finds(
    facts: dict[str, Any], cause: Cause | None
) -> None:
    verdict = partition_status(PartitionFacts(**(WELL | facts)), StatusRules())
    assert verdict.cause is cause, verdict
