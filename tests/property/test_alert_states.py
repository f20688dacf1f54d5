"""Whatever holds when and whichever sink is away: none is told nonsense, and none forgotten."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from streaming.alerts.alert import AlertKey, AlertState
from tests.support.tables.watched_rules import BEHIND, WatchedRules

SINKS = {name: {"type": "stdout"} for name in ("a", "b")}
LOOK = st.tuples(
    st.integers(1, 40),
    st.sampled_from(["holds", "not", "unknown"]),
    st.sets(st.sampled_from(["a", "b"])),
)


@given(looks=st.lists(LOOK, max_size=30), hold=st.sampled_from([0, 20]))
def test_every_sink_is_told_of_beginning_and_end(
    looks: list[tuple[int, str, set[str]]], hold: int
) -> None:
    rules = WatchedRules(sinks=SINKS, rule={"for": f"{hold}s", "repeat": "1m"})
    second, held_since = 0, None
    for pause, condition, broken in looks:
        second += pause
        rules.broken = broken
        keys: list[AlertKey] = [BEHIND] if condition == "holds" else []
        rules.look(second, *keys, unknown=[BEHIND] if condition == "unknown" else [])
        if condition == "holds":
            held_since = second if held_since is None else held_since
            is_due = second - held_since >= hold
            assert rules.state() is (AlertState.FIRING if is_due else AlertState.PENDING)
        elif condition == "not":
            held_since = None
            assert rules.state() in (None, AlertState.RESOLVED)
    rules.broken = set()
    rules.look(second + 1)
    for sink in SINKS:
        notices = [(at, word) for at, _, name, word in rules.sent if name == sink]
        words = [word for _, word in notices]
        assert words[::-1][:1] in ([], ["resolved"])
        is_known, last_at = False, 0.0
        for at, word in notices:
            if word == "firing":
                assert not is_known
            else:
                assert is_known
            if word == "again":
                assert at - last_at >= 60
            is_known, last_at = word != "resolved", at


CHANGE = st.tuples(
    st.integers(1, 40), st.sampled_from(["STOP", "STALL"]), st.sets(st.sampled_from(["a", "b"]))
)


@given(changes=st.lists(CHANGE, min_size=1, max_size=30))
def test_every_sink_that_knows_an_alert_learns_its_newest_status(
    changes: list[tuple[int, str, set[str]]],
) -> None:
    rules = WatchedRules(sinks=SINKS, rule={"status": ["STOP", "STALL"], "repeat": "off"})
    second, last = 0, changes[-1][1]
    statuses: dict[float, str] = {}
    whole: set[str] = set()
    for pause, status, broken in [*changes, (60, last, whole), (60, last, whole)]:
        second += pause
        statuses[second] = status
        rules.broken = broken
        rules.look(second, BEHIND, status=status)
    for sink in SINKS:
        notices = [(at, word) for at, _, name, word in rules.sent if name == sink]
        (_, first), *updates = notices
        assert first == "firing"
        assert {word for _, word in updates} <= {"changed"}
        times = [at for at, _ in notices]
        assert all(after - before >= 60 for before, after in pairwise(times))
        assert statuses[times[-1]] == last
