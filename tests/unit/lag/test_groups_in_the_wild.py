"""The status of groups as they are in the wild, over two hours: healthy ones, and broken ones.

A step is five seconds, and `run` writes a micro-batch in each. Statuses are looked at twice a
minute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from streaming.lag import paces
from streaming.lag.evaluation import Evaluation
from streaming.lag.paces import KnownPaces
from tests.support.tables.incident_tables import STEP_S, Cluster, member_id_of, moment
from tests.support.tables.tables_folder import create_tables

_LASTS_S: Final = 7_200
_LOOKS_EVERY_S: Final = 30
_RECORDS: Final = 100 * STEP_S
_BREAKS_AT_S: Final = 5_400

Step = Callable[[Cluster, str, int], None]


class Group(NamedTuple):
    """A group, by its step. `t` is the time since the tables began."""

    name: str
    step: Step
    right: Collection[str] = ("OK",)
    """The statuses while it is healthy."""
    broken: Collection[str] = ()
    """The statuses once it is broken, at `_BREAKS_AT_S`; it stays healthy without any."""
    noticed_within_s: int = 60


def commits_every(seconds: int, *, stops: bool = False) -> Step:
    """The group keeps up, and commits once in so many seconds."""

    def step(cluster: Cluster, name: str, t: int) -> None:
        end = cluster.produce(name, _RECORDS)
        if t % seconds == 0 and not (stops and t >= _BREAKS_AT_S):
            cluster.commit(name, end)

    return step


def rare_records(every_s: int, *, stops: bool = False) -> Step:
    """A record arrives now and then, and is committed in the next step."""

    def step(cluster: Cluster, name: str, t: int) -> None:
        end = cluster.produce(name, 0)
        if not (stops and t >= _BREAKS_AT_S):
            cluster.commit(name, end)
        cluster.produce(name, 1 if t % every_s == 0 else 0)

    return step


def open_transactions(every_s: int) -> Step:
    """An exactly-once producer has always a transaction open, and ends it in each interval."""

    def step(cluster: Cluster, name: str, t: int) -> None:
        log = cluster.logs[name, 0]
        if t % every_s == 0:
            # The next transaction begins at once.
            log.open_at = log.end
        cluster.produce(name, _RECORDS)
        if t % every_s == 0:
            # librdkafka commits a partition only after it has read from it.
            cluster.commit(name, log.open_at or 0)

    return step


def comes_back(cluster: Cluster, name: str, t: int) -> None:
    """An offset past the log end, and then a consumer that resets it and reads on."""
    end = cluster.produce(name, _RECORDS)
    if t == 1_000:
        cluster.no_members(name, 2)
    elif t == 1_100:
        cluster.commit(name, 10_000_000)
    elif t == 1_110:
        cluster.members(name, generation=3)
    elif t < 1_000 or t > 1_110:
        cluster.commit(name, end - 50)


def altered(cluster: Cluster, name: str, t: int) -> None:
    """An operator sets the offset past the end of a log that nobody writes to."""
    end = cluster.produce(name, 500 if t == 0 else 0)
    if t < 1_000:
        cluster.commit(name, end)
    elif t == 1_000:
        cluster.no_members(name, 2)
    elif t == _BREAKS_AT_S:
        cluster.commit(name, 60_000)


def deployed(*, begins_at_s: int = 970, on_one_machine: bool = False, loops: bool = False) -> Step:
    """A deployment replaces ten members in five minutes; later one may restart again and again.

    The group keeps up all the time. On one machine, its members have the same client id.
    """

    def step(cluster: Cluster, name: str, t: int) -> None:
        cluster.commit(name, cluster.produce(name, _RECORDS))
        replaced = min(max(t - begins_at_s, 0) // 30, 10)
        restarts = max(t - _BREAKS_AT_S, 0) // 20 if loops else 0
        is_change = (t - begins_at_s) % 30 == 0 and 0 < t - begins_at_s <= 300
        if t == 0 or is_change or (restarts and t % 20 == 0):
            numbers = [*range(replaced, 10 + replaced)]
            ids = [
                member_id_of("app" if on_one_machine else f"app-{number}", number)
                for number in numbers
            ]
            # The first member is away, and then comes back as another one.
            ids[0] = member_id_of(f"app-{numbers[0]}", 100 + restarts) if restarts else ids[0]
            members = ids[1:] if restarts % 2 else ids
            cluster.assign(
                name, {member: {name: []} for member in members}, 1 + replaced + restarts
            )

    return step


def leaves_a_topic(cluster: Cluster, name: str, t: int) -> None:
    """The members restart with one of two topics; the other goes on growing."""
    left = f"{name}-left"
    if t == 0:
        cluster.members(name, (name, 1), (left, 1))
    if t == 1_000:
        cluster.members(name, (name, 1), generation=2)
    cluster.commit(name, cluster.produce(name, _RECORDS))
    end = cluster.produce(left, _RECORDS)
    if t < 1_000:
        cluster.commit(name, end, topic=left)


def loses_its_topic(cluster: Cluster, name: str, t: int) -> None:
    """Somebody deletes the topic, so the coordinator deletes the offset; the members stay."""
    end = cluster.produce(name, _RECORDS)
    if t < _BREAKS_AT_S:
        cluster.commit(name, end)
    elif t == _BREAKS_AT_S:
        cluster.commit(name, None)
    elif t == _BREAKS_AT_S + STEP_S:
        cluster.logs[name, 0].state = "gone"


def loses_its_leader(cluster: Cluster, name: str, t: int) -> None:
    """The log cannot be sampled for ten minutes; its group goes on."""
    cluster.logs[name, 0].state = "unavailable" if 3_000 <= t < 3_600 else "present"
    cluster.commit(name, cluster.produce(name, _RECORDS))


def polls_too_slowly(cluster: Cluster, name: str, t: int) -> None:
    """Each of eight members is put out of the group every five minutes, and joins again."""
    cluster.commit(name, cluster.produce(name, _RECORDS))
    turn = max(t - _BREAKS_AT_S, 0) // 20
    if t == 0 or (turn and t % 20 == 0):
        ids = [
            member_id_of(f"app-{number}", 8 * ((turn + 15 - 2 * number) // 16) + number)
            for number in range(8)
        ]
        out = turn // 2 % 8
        members = ids if turn % 2 == 0 else [*ids[:out], *ids[out + 1 :]]
        cluster.assign(name, {member: {name: []} for member in members}, 1 + turn)


def never_commits(cluster: Cluster, name: str, t: int) -> None:
    """A group without a member, and then with one that commits nothing."""
    cluster.produce(name, _RECORDS)
    if t == 0:
        cluster.no_members(name)
    elif t == _BREAKS_AT_S:
        cluster.members(name, generation=2)


def reads_in_turn(cluster: Cluster, name: str, t: int) -> None:
    """The group reads 25 records a second of 150, from one of four partitions at a time.

    It commits all of its positions in each step.
    """
    if t == 0:
        cluster.members(name, (name, 4))
        cluster.positions[name] = [0] * 4
    positions = cluster.positions[name]
    turn = t // 60 % 4
    for partition in range(4):
        end = cluster.produce(name, 190, partition)
        if partition == turn:
            positions[partition] = min(positions[partition] + 25 * STEP_S, end)
        cluster.commit(name, positions[partition], partition)


def crashes_at_a_record(cluster: Cluster, name: str, t: int) -> None:
    """The process reads until it comes to a poison record, crashes, and starts again."""
    end = cluster.produce(name, _RECORDS)
    if t < _BREAKS_AT_S:
        cluster.commit(name, end)
    elif (t - _BREAKS_AT_S) % 40 == 0:
        generation = 2 + (t - _BREAKS_AT_S) // 20
        cluster.assign(name, {member_id_of("app-0", generation): {name: [0]}}, generation)
    elif (t - _BREAKS_AT_S) % 20 == 0:
        cluster.no_members(name, 2 + (t - _BREAKS_AT_S) // 20)


def commits_with_jitter(cluster: Cluster, name: str, t: int) -> None:
    """A sink commits after 20 to 140 s."""
    end = cluster.produce(name, _RECORDS)
    if t % 140 in {0, 20, 100}:
        cluster.commit(name, end)


GROUPS: Final = (
    *(
        Group(f"every-{seconds}-s", commits_every(seconds), ("OK", "UNKNOWN"))
        for seconds in (90, 150, 360, 600, 900, 1_800)
    ),
    Group("stops-5", commits_every(5, stops=True), broken=("STOP",)),
    Group(
        "stops-300",
        commits_every(300, stops=True),
        ("OK", "UNKNOWN"),
        broken=("STOP",),
        noticed_within_s=930,
    ),
    Group("rare", rare_records(600)),
    Group("rare-stops", rare_records(600, stops=True), broken=("STOP",), noticed_within_s=60),
    *(Group(f"open-{seconds}-s", open_transactions(seconds)) for seconds in (60, 300)),
    Group("open-1200-s", open_transactions(1_200), ("OK", "UNKNOWN")),
    Group("deployed", deployed()),
    Group("deployed-here", deployed(on_one_machine=True)),
    # Its members have just started.
    Group("deployed-soon", deployed(on_one_machine=True, begins_at_s=150)),
    Group("restarts", deployed(loops=True), broken=("REBALANCING_LOOP",), noticed_within_s=240),
    Group("reads-in-turn", reads_in_turn, ("OK", "WARN", "UNKNOWN")),
    Group("jitter", commits_with_jitter),
    Group("crashes", crashes_at_a_record, broken=("STOP", "STALL")),
    Group("loses-its-leader", loses_its_leader, ("OK", "UNKNOWN")),
    Group(
        "polls-too-slowly",
        polls_too_slowly,
        broken=("REBALANCING_LOOP",),
        noticed_within_s=1_000,
    ),
    Group("leaves-a-topic", leaves_a_topic),
    Group("loses-its-topic", loses_its_topic, broken=("TOPIC_GONE",), noticed_within_s=10),
    Group("never-commits", never_commits, ("IDLE",), broken=("STOP",), noticed_within_s=360),
    Group("comes-back", comes_back, ("OK", "STOP", "OUT_OF_RANGE")),
    Group("altered", altered, ("OK", "IDLE"), broken=("OUT_OF_RANGE",)),
)


Seen = dict[str, dict[int, tuple[str, str]]]
"""The status and the reason of each group at each look."""


def _seen(
    folder: Path, groups: Collection[Group], *, skew_s: int = 0, every_s: int = _LOOKS_EVERY_S
) -> Seen:
    cluster = Cluster(skew_s=skew_s)
    for t in range(0, _LASTS_S + 1, STEP_S):
        for group in groups:
            if t == 0:
                cluster.members(group.name)
            group.step(cluster, group.name, t)
        cluster.step()
    snapshots = cluster.snapshots(create_tables(folder))
    known = KnownPaces()
    seen: Seen = {group.name: {} for group in groups}
    for t in range(0, _LASTS_S + 1, every_s):
        reader = snapshots.reader(moment(t))
        assert reader is not None
        evaluation = Evaluation.of(reader, at=moment(t), known=known)
        if t % 600 == 0:
            assert evaluation.group_lag() == Evaluation.of(reader, at=moment(t)).group_lag()
        for row in evaluation.group_status().to_pylist():
            seen[row["group_id"]][t] = row["status"], row["reason"]
    return seen


def _require_right(group: Group, looks: dict[int, tuple[str, str]]) -> None:
    for t, (status, reason) in looks.items():
        if not group.broken or t < _BREAKS_AT_S:
            assert status in group.right, f"{group.name} after {t} s: {status} {reason}"
        elif t > _BREAKS_AT_S + group.noticed_within_s:
            assert status in group.broken, f"{group.name} after {t} s: {status} {reason}"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    return _seen(tmp_path_factory.mktemp("wild"), GROUPS)


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_a_group_has_the_right_status(group: Group, seen: Seen) -> None:
    _require_right(group, seen[group.name])


_OF_CLOCKS: Final = ("stops-5", "every-150-s", "rare-stops", "open-60-s", "altered", "restarts")


@pytest.mark.long
@pytest.mark.parametrize("skew_s", [-180, 180])
def test_a_clock_that_is_wrong_by_minutes_changes_no_status(tmp_path: Path, skew_s: int) -> None:
    groups = [group for group in GROUPS if group.name in _OF_CLOCKS]
    seen = _seen(tmp_path, groups, skew_s=skew_s, every_s=60)
    for group in groups:
        _require_right(group, seen[group.name])


def test_nothing_is_lost_or_invented_where_the_history_is_too_large_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commits of a stopped group leave the last ten minutes while its alert fires."""
    monkeypatch.setattr(paces, "is_too_large", lambda *_: True)
    cluster, known = Cluster(), KnownPaces()
    opens = open_transactions(60)
    statuses: dict[str, set[str]] = {"stops": set(), "opens": set()}
    for t in range(0, 1_501, STEP_S):
        if t == 0:
            cluster.members("stops")
            cluster.members("opens")
        end = cluster.produce("stops", _RECORDS)
        if t < 300:
            cluster.commit("stops", end)
        opens(cluster, "opens", t)
        cluster.step()
    snapshots = cluster.snapshots(create_tables(tmp_path))
    for t in range(360, 1_501, 60):
        reader = snapshots.reader(moment(t - STEP_S))
        assert reader is not None
        rows = Evaluation.of(reader, at=reader.moment, known=known).group_status()
        for row in rows.to_pylist():
            statuses[row["group_id"]].add(row["status"])
    assert statuses == {"stops": {"STOP"}, "opens": {"OK"}}


def test_a_pace_of_hours_is_known_over_days(tmp_path: Path) -> None:
    """The group commits every six hours for four days, and then stops."""
    cluster, hour_s, stops_at_s = Cluster(), 3_600, 4 * 86_400
    statuses: dict[int, str] = {}
    for t in range(0, stops_at_s + 30 * hour_s, hour_s // 6):
        cluster.seconds = t
        if t == 0:
            cluster.members("slow")
        end = cluster.produce("slow", 1)
        if t % (6 * hour_s) == 0 and t <= stops_at_s:
            cluster.commit("slow", end)
        cluster.step()
    snapshots = cluster.snapshots(create_tables(tmp_path))
    for hours in (-50, -1, 5, 17, 19, 29):
        reader = snapshots.reader(moment(stops_at_s + hours * hour_s))
        assert reader is not None
        (row,) = Evaluation.of(reader, at=reader.moment).group_status().to_pylist()
        statuses[hours] = row["status"]
    assert statuses == {-50: "OK", -1: "OK", 5: "OK", 17: "OK", 19: "STOP", 29: "STOP"}
