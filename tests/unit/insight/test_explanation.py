"""The order of evidence, and the time when the lag began to grow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from coordinator_state.insight.explanation import Explanation, explain
from coordinator_state.insight.group_facts import (
    Commit,
    GroupFacts,
    LagHistory,
    OpenTransaction,
    PartitionHistory,
)
from coordinator_state.insight.group_status import Cause, moment_text
from coordinator_state.insight.kafka_commands import transaction_commands
from coordinator_state.insight.lag_onset import Onset, lag_onset
from coordinator_state.insight.story import Part, story_of

NOW = datetime(2026, 3, 2, 12, tzinfo=timezone.utc)
START = NOW - timedelta(hours=1)


def minute(number: float) -> datetime:
    return START + timedelta(minutes=number)


def series(
    lags: Sequence[float | None], produced: Sequence[float | None] | None = None
) -> LagHistory:
    """One point a minute, up to now."""
    at = [NOW - timedelta(minutes=number) for number in reversed(range(len(lags)))]
    rates = [10.0] * len(lags)
    produced = produced or rates
    return LagHistory(at=at, lag=lags, commit_rate_per_s=rates, produce_rate_per_s=produced)


def facts(**changed: Any) -> GroupFacts:
    """A group that has caught up."""
    last = Commit(0, 90, 1_000, minute(59))
    partition_history: dict[str, Any] = {
        **{"topic": "t", "partition": 0, "lag": 0, "log_end_offset": 1_000, "data_lost": 0},
        **{"topic_state": "present", "owner": ("c", "/h"), "last": last, "same_since": last},
    }
    well: dict[str, Any] = {
        **{"group_id": "g", "at": NOW, "since": START, "known_until": NOW, "group_type": "classic"},
        **{"is_simple": False, "status": "OK", "reason": "caught up"},
        **{"is_healthy": True, "lag": 0, "partitions": [PartitionHistory(**partition_history)]},
        **{"transactions": [], "uncommitted": []},
        **{"deleted": None, "members": [{"member_id": "m"}], "events": []},
        "series": series([0.0] * 60),
    }
    return GroupFacts(**(well | changed))


def causes_of(explanation: Explanation) -> list[Cause]:
    return [evidence.cause for evidence in explanation.evidence]


def evidence_of(explanation: Explanation) -> list[tuple[Cause, str]]:
    return [(evidence.cause, evidence.text) for evidence in explanation.evidence]


def rewind(number: float) -> dict[str, Any]:
    nothing = dict.fromkeys(("member_id", "client_id", "client_host", "producer_id"))
    return {
        **{"event": "offset_rewind", "group_id": "g", "group_type": "classic", "member_count": 1},
        **{"topic": "t", "partition": 0, "offset_before": 100, "offset_after": 5, **nothing},
        **{"log_partition": 0, "record_offset": 50, "event_number": 0},
        "record_timestamp": minute(number),
    }


@pytest.mark.parametrize(
    ("lags", "minutes_ago", "is_earlier"),
    [
        # After the last low point; it may have been before the facts.
        ([0, 500, 0, 5, 400, 700, 1_000], 3, False),
        ([None, 900, 1_000, 1_000], 2, True),
        # A group that never kept up has an onset only after a level lag.
        ([900.0, 910.0] * 10 + [1_000.0 + 200 * n for n in range(10)], 10, False),
        ([900.0 + 20 * n for n in range(60)], 59, True),
    ],
)
def test_the_lag_began_to_grow(
    lags: list[float | None], minutes_ago: int, is_earlier: bool
) -> None:
    onset = Onset(NOW - timedelta(minutes=minutes_ago), is_earlier=is_earlier)
    assert lag_onset(series(lags)) == onset


def test_the_onset_of_a_growing_lag_does_not_move() -> None:
    lags = [20.0, 5.0] * 15 + [100.0 * n for n in range(1, 30)]
    onsets = [lag_onset(series(lags[:length])) for length in (40, 50, 59)]
    ago = [NOW - timedelta(minutes=length - 30) for length in (40, 50, 59)]
    assert onsets == [Onset(at, is_earlier=False) for at in ago]


def test_a_lag_that_grows_is_not_said_to_keep_up() -> None:
    lags = [100.0] * 52 + [100.0 + 20 * n for n in range(8)]
    evidence = evidence_of(explain(facts(lag=240, series=series(lags))))
    assert evidence == [(Cause.STATUS, "240 records behind, 140 more than 10 min ago")]


def test_without_a_lag_there_is_no_onset() -> None:
    assert lag_onset(series([500, 0])) is None
    assert lag_onset(series([None, None])) is None


def test_an_event_from_before_the_lag_is_no_cause_of_it() -> None:
    lags, produced = [0.0] * 50 + [1_000.0 * n for n in range(10)], [10.0] * 50 + [90.0] * 10
    behind = {"lag": 9_000, "is_healthy": False, "status": "WARN", "events": [rewind(5)]}
    explanation = explain(facts(**behind, series=series(lags, produced)))
    assert explanation.behind_since == Onset(minute(51), is_earlier=False)
    assert causes_of(explanation) == [Cause.PRODUCTION_RATE, Cause.OFFSET_REWIND]


def test_an_old_event_of_a_group_that_has_caught_up_comes_last() -> None:
    causes = [Cause.CAUGHT_UP, Cause.OFFSET_REWIND]
    assert causes_of(explain(facts(events=[rewind(5)]))) == causes
    assert causes_of(explain(facts(events=[rewind(58)]))) == causes[::-1]


def test_an_offset_past_the_log_end_is_not_caught_up() -> None:
    ((_, text),) = evidence_of(explain(facts(in_range_since=minute(40))))
    assert text.startswith(f"caught up since {moment_text(minute(40), NOW)}")


def test_a_group_without_events_is_said_to_be_fine() -> None:
    explanation = explain(facts())
    assert explanation.headline == "OK: caught up"
    text = "caught up since before 11:01:00 UTC; nothing unusual in the last hour"
    assert evidence_of(explanation) == [(Cause.CAUGHT_UP, text)]


def test_a_lag_that_is_as_usual_needs_no_cause() -> None:
    lags = [50.0, 90.0, 10.0] * 20
    explanation = explain(facts(lag=10, series=series(lags)))
    assert not explanation.is_behind
    assert causes_of(explanation) == [Cause.CAUGHT_UP]


def test_an_unknown_lag_has_the_reason_of_the_status() -> None:
    unknown = {"status": "UNKNOWN", "is_healthy": False, "reason": "the log was not sampled yet"}
    explanation = explain(facts(**unknown, lag=None, partitions=[], series=series([])))
    assert evidence_of(explanation) == [(Cause.STATUS, "the log was not sampled yet")]


def test_the_commands_name_the_log_partition_and_the_first_commit() -> None:
    commands = transaction_commands(7, 42, "broker:9092")
    begin, of = "kafka-transactions.sh --bootstrap-server broker:9092", "--topic __consumer_offsets"
    assert commands.lines(is_known_to_coordinator=False) == (
        f"{begin} describe-producers {of} --partition 7",
        f"{begin} find-hanging {of} --partition 7",
        f"{begin} abort {of} --partition 7 --start-offset 42",
    )
    prepared = transaction_commands(7, 42, "broker:9092", two_phase_commit_id="pay ments")
    assert prepared.lines(is_known_to_coordinator=True)[2:] == (
        f"{begin} forceTerminateTransaction --transactionalId 'pay ments'",
    )


def test_a_transaction_of_a_producer_in_the_log_is_the_cause() -> None:
    reason = "a transaction in the log has been open for 35 s: last stable offset 5, log end 9"
    cause = Cause.OPEN_TRANSACTION
    held = facts(status="PENDING", reason=reason, cause=cause, is_healthy=False, lag=4)
    assert evidence_of(explain(held))[0] == (Cause.OPEN_TRANSACTION, reason)


def test_a_group_that_catches_up_after_a_stop_has_the_stop_as_its_cause() -> None:
    stopped, resumed = Commit(0, 40, 500, minute(50)), Commit(0, 41, 520, minute(56))
    partition = replace(
        facts().partitions[0],
        lag=2_000,
        last=Commit(0, 90, 1_000, minute(59.9)),
        usual_commit_ms=5_000.0,
        pause=(stopped, resumed),
    )
    lags = [0.0] * 50 + [600.0 * n for n in range(7)] + [3_000.0, 2_500.0, 2_000.0]
    behind = {"lag": 2_000, "is_healthy": False, "status": "WARN", "partitions": [partition]}
    explanation = explain(facts(**behind, series=series(lags)))
    since = "since about 11:51:00 UTC"
    assert explanation.headline == f"WARN: 2,000 records behind, down from 3,600, {since}"
    first = explanation.evidence[0]
    assert (first.cause, first.record_ids) == (Cause.NO_COMMITS, [(0, 40), (0, 41)])
    assert first.text == ("no commit of t:0 from 11:50:00 UTC to 11:56:00 UTC, usually within 5 s")


def test_a_partition_that_is_read_in_turn_is_not_stuck() -> None:
    (partition,) = facts().partitions
    first, last = Commit(0, 50, 900, minute(50)), Commit(0, 90, 900, minute(59))
    rests = replace(partition, lag=500, same=40, same_since=first, last=last)
    stuck = replace(rests, cause=Cause.SAME_OFFSET)
    behind = {"lag": 9_000, "is_healthy": False}
    causes_by_status = {
        status: causes_of(explain(facts(**behind, status=status, partitions=[partition])))
        for status, partition in (("STALL", stuck), ("WARN", rests))
    }
    assert Cause.SAME_OFFSET in causes_by_status["STALL"]
    assert Cause.SAME_OFFSET not in causes_by_status["WARN"]


def test_a_group_that_usually_rests_has_the_reason_of_its_status() -> None:
    (partition,) = facts().partitions
    silent = replace(
        partition, lag=9_000, last=Commit(0, 90, 1_000, minute(45)), usual_commit_ms=5_000.0
    )
    lags = [0.0] * 45 + [600.0 * n for n in range(1, 16)]
    behind: dict[str, Any] = {"lag": 9_000, "members": [], "series": series(lags)}
    reason = "no commit for 15 min; it usually rests for up to 31 min"
    rests = explain(facts(**behind, partitions=[silent], reason=reason))
    assert evidence_of(rests) == [(Cause.STATUS, reason)]
    # In stale tables no status is known.
    stale = explain(facts(**behind, partitions=[silent], status="UNKNOWN", is_healthy=False))
    assert causes_of(stale) == [Cause.NO_MEMBERS, Cause.NO_COMMITS]
    cause = Cause.NO_MEMBERS
    stopped = {"status": "STOP", "is_healthy": False, "cause": cause}
    partitions = [replace(silent, cause=cause)]
    causes = causes_of(explain(facts(**behind, **stopped, partitions=partitions)))
    assert causes == [cause, Cause.NO_COMMITS]


def test_a_group_that_stops_after_a_reset_has_no_commits() -> None:
    """Its verdict has the cause of the reset, and the pace may not be known."""
    (partition,) = facts().partitions
    last, cause = partition.last._replace(at=minute(10)), Cause.OFFSET_RESET
    reset = replace(partition, lag=9_000, status="STOP", cause=cause, last=last)
    stopped: dict[str, Any] = {"status": "STOP", "is_healthy": False, "cause": cause}
    lags = series([0.0] * 10 + [180.0 * n for n in range(50)])
    explanation = explain(facts(**stopped, lag=9_000, partitions=[reset], series=lags))
    assert Cause.NO_COMMITS in causes_of(explanation)


def test_one_commit_at_an_offset_is_one_record() -> None:
    (partition,) = facts().partitions
    stuck = replace(partition, lag=9_000, status="STALL", cause=Cause.SAME_OFFSET)
    stalled: dict[str, Any] = {"status": "STALL", "is_healthy": False, "cause": Cause.SAME_OFFSET}
    evidence, *_ = explain(facts(**stalled, lag=9_000, partitions=[stuck])).evidence
    text = "t:0 is still at offset 1,000, committed 11:59:00 UTC"
    assert (evidence.text, evidence.record_ids) == (text, [(0, 90)])


def test_a_loop_that_has_ended_explains_a_lag_that_remains() -> None:
    rebalance = {"event": "rebalance", "topic": None, "partition": None}
    events = [
        rewind(50 + number) | rebalance | {"record_offset": number, "epoch_after": number}
        for number in range(6)
    ]
    behind = {"lag": 9_000, "is_healthy": False, "status": "WARN", "events": events}
    lags = series([0.0] * 50 + [900.0 * number for number in range(1, 11)])
    ended = explain(facts(**behind, series=lags, loop_ended_at=minute(57)))
    assert causes_of(ended) == [Cause.REBALANCES]
    assert Cause.REBALANCES not in causes_of(explain(facts(**behind, series=lags)))


def test_an_open_transaction_does_not_age_with_the_tables() -> None:
    opened: dict[str, Any] = {
        **{"log_partition": 0, "producer_id": 1, "producer_epoch": 0, "first_record_offset": 90},
        **{"since": minute(55), "offsets": 1, "client_id": "c", "client_host": "/h"},
    }
    transactions = [OpenTransaction(**opened)]
    stale = {"status": "UNKNOWN", "is_healthy": False, "transactions": transactions}
    soon, later = (
        causes_of(explain(facts(**stale, known_until=until)))
        for until in (minute(55.01), minute(56))
    )
    assert Cause.OPEN_TRANSACTION not in soon
    assert Cause.OPEN_TRANSACTION in later


def outlook(lags: Sequence[float], events: Sequence[dict[str, Any]] = ()) -> str:
    now: dict[str, Any] = {"lag": round(lags[-1]), "is_healthy": False, "status": "WARN"}
    behind = facts(**now, events=events, series=series([0.0] * 50 + list(lags)))
    return next(
        line.text for line in story_of(behind, explain(behind)).lines if line.part is Part.OUTLOOK
    )


def test_the_outlook_begins_where_the_lag_turned() -> None:
    assert outlook([0, 9_000, 3_000, 6_000]) == "the lag grows by 50 records/s"
    falls = "the lag falls by 50 records/s, to zero in about 60 s"
    assert outlook([0, 4_000, 6_000, 3_000]) == falls


def test_the_outlook_leaves_the_jump_of_a_rewind_out() -> None:
    assert outlook([0, 9_000, 9_600], [rewind(58.5)]) == "the lag grows by 10 records/s"
