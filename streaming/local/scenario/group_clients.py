"""A group of a scenario: its members, their positions, and their commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from coordinator_state.model.classic_group import ClassicGroup, CooperativeGroup
from coordinator_state.model.consumer_group import ConsumerGroup
from coordinator_state.model.group import Group as MemberGroup
from coordinator_state.model.group import Member
from coordinator_state.model.group_coordinator import Place, Refused
from coordinator_state.model.log import Producer
from coordinator_state.model.records import record
from coordinator_state.model.share_group import ShareGroup
from coordinator_state.records.share_state_records import SHARE_STATE_RECORD_TYPES
from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError
from streaming.local.scenario.brokers import Brokers
from streaming.local.scenario.scenario import (
    TICK_S,
    AbortCommits,
    Crash,
    CrashLoop,
    DeleteGroup,
    Deploy,
    Group,
    HangCommits,
    Pace,
    Pause,
    Rejoin,
    Reset,
    Silent,
    Slow,
    Stop,
    Subscribe,
    Window,
)

W = TypeVar("W", bound=Window)

_KINDS: Mapping[str, type[MemberGroup]] = {
    "consumer": ConsumerGroup,
    "cooperative": CooperativeGroup,
    "share": ShareGroup,
}
_METADATA_AGE_S = 300
"""`metadata.max.age.ms`: so long until a classic member notices new partitions."""


class GroupClients:
    """The clients of a group; `topics` has the name in the cluster of each topic of the file."""

    def __init__(
        self, brokers: Brokers, group_id: str, group: Group, topics: Mapping[str, str]
    ) -> None:
        self.group_id = group_id
        self.group = group
        self._brokers = brokers
        self._topics = topics
        self._t = 0
        self._positions: dict[Place, int] = {}
        self._owners: dict[Place, Member] = {}
        self._committed: dict[Place, int] = {}
        self._next_commit_s = group.starts_s
        self._commits = 0
        self._started = 0
        self._sizes: tuple[int, ...] = ()
        self._carry = 0.0
        self._away: list[Member] = []
        self._producer = Producer(brokers.new_producer_id(), 0) if group.transactions else None
        self._simple = Member(client_id="", host="")
        self.members = _KINDS.get(group.kind, ClassicGroup)(
            brokers.coordinator,
            group_id,
            [topics[name] for name in group.reads],
            self._before_revoking,
        )

    def tick(self, t: int) -> None:
        """What the clients do at a moment."""
        self._t = t
        if t == self.group.starts_s:
            self._start_all()
        for event in self.group.events:
            if isinstance(event, Window):
                self._goes_on(event, t)
            elif event.at_s <= t:
                self._is_asked(event, t)
        if self.group.kind == "simple":
            is_up = t >= self.group.starts_s and not self._is_down
            self._simple.places = self.members.places() if is_up else []
            self.members.live = [self._simple] if is_up else []
        else:
            self._notice_partitions(t)
            self.members.tick()
        self._read()
        if t >= self._next_commit_s and self.members.live:
            self._next_commit_s = t + self._pause_s()
            for member in self.members.live:
                self._commit(member)

    # --- what happens

    def _goes_on(self, event: Window, t: int) -> None:
        """The begin, the course and the end of an event that lasts."""
        ends = t == event.to_s
        match event:
            case Stop() if event.begins(t):
                self._end_all(crashes=False)
            case Crash() if event.begins(t):
                for member in self.members.live[: event.members]:
                    self.members.crash(member)
            case CrashLoop() if event.has(t):
                self._loop_of_crashes(event, t - event.from_s)
            case Rejoin() if event.has(t) or ends:
                self._rejoin(event, t - event.from_s)
            case HangCommits() | AbortCommits() if ends:
                self._end_transaction(is_commit=False)
                self._go_back()
            case Crash(members=int(number)) if event.ends(t):
                self._start(range(number))
            case Stop() | Crash() if event.ends(t) and not self._is_down:
                self._end_all(crashes=True)
                self._start_all()
            case CrashLoop() if ends:
                self._end_all(crashes=True)
                self._start_all()

    def _is_asked(self, event: Deploy | Reset | Subscribe | DeleteGroup, t: int) -> None:
        """What a person does to the group."""
        passed_s = t - event.at_s
        if isinstance(event, Deploy):
            number, rest = divmod(passed_s, event.each_s)
            if rest == 0 and number < self.group.members:
                self._replace(number)
        elif passed_s:
            pass
        elif isinstance(event, Subscribe):
            self._end_all(crashes=False)
            self.members.topics[:] = [self._topics[name] for name in event.topics]
            self._start_all()
        elif isinstance(event, Reset):
            self._reset(event)
        else:
            try:
                self._brokers.coordinator.delete_group(self.group_id)
            except Refused as refused:
                raise ConfigurationError(
                    f"group {self.group_id} cannot be deleted at {t}s: {refused}"
                ) from refused

    @property
    def _is_down(self) -> bool:
        """Whether a group without members has stopped."""
        return any(isinstance(e, (Stop, Crash)) and e.has(self._t) for e in self.group.events)

    def _active(self, kind: type[W]) -> list[W]:
        return [e for e in self.group.events if isinstance(e, kind) and e.has(self._t)]

    def _start_all(self) -> None:
        self._start(range(self.group.members))

    def _start(self, numbers: range) -> None:
        """Start the members with these numbers."""
        if self.group.kind != "simple":
            for number in numbers:
                self.members.start(self._new_member(number))

    def _new_member(self, number: int) -> Member:
        started = self._started
        self._started += 1
        if self.group.static:
            client = self.group.client or f"app-{number}"
            return Member(client, f"/10.0.0.{number}", instance_id=f"app-{number}")
        return Member(self.group.client or f"app-{started}", f"/10.0.0.{started % 250}")

    def _end_all(self, *, crashes: bool) -> None:
        for member in list(self.members.live):
            (self.members.crash if crashes else self.members.leave)(member)
        self._owners.clear()

    def _replace(self, number: int) -> None:
        """Replace the oldest member."""
        if self.members.live:
            self.members.leave(self.members.live[0])
        self.members.start(self._new_member(number))

    def _rejoin(self, event: Rejoin, passed_s: int) -> None:
        """A member leaves, and joins again after half of the time until the next one leaves."""
        if self._away and passed_s % event.every_s == event.every_s // 2 // TICK_S * TICK_S:
            self.members.start(self._away.pop())
        elif passed_s % event.every_s == 0 and self.members.live:
            left = self.members.live[0]
            self.members.leave(left)
            self._away.append(Member(left.client_id, left.host, left.instance_id))

    def _loop_of_crashes(self, event: CrashLoop, passed_s: int) -> None:
        """The process runs for half of the time, and commits nothing."""
        phase_s = passed_s % event.every_s
        if passed_s == 0 or phase_s == event.every_s // 2 // TICK_S * TICK_S:
            self._end_all(crashes=False)
        elif phase_s == 0:
            self._start_all()

    def _notice_partitions(self, t: int) -> None:
        """The members of the classic protocol notice new partitions, and join again."""
        sizes = tuple(self._brokers.partitions_of(topic) for topic in self.members.topics)
        if not isinstance(self.members, ClassicGroup):
            return
        if self._sizes and sizes != self._sizes and t % _METADATA_AGE_S:
            return
        if self._sizes and sizes != self._sizes:
            self.members.rebalance()
        self._sizes = sizes

    # --- offsets

    def _read(self) -> None:
        """Read on in all partitions that a member has."""
        owned = {place: member for member in self.members.live for place in member.places}
        for place, member in owned.items():
            if self._owners.get(place) is not member or place not in self._positions:
                self._positions[place] = self._begin_of(place)
        self._owners = owned
        budget: float | None = self.group.reading
        for slow in self._active(Slow):
            budget = slow.reading
        readable = [place for place in owned if self._is_read(place)]
        if self.group.in_turn_s is not None and owned:
            turn = self._t // self.group.in_turn_s % len(owned)
            readable = [place for place in readable if place == sorted(owned)[turn]]
        if budget is not None:
            self._carry += budget * TICK_S
            left = int(self._carry + 1e-6)
            self._carry -= left
        # Those that are furthest behind share what the others leave.
        for number, place in enumerate(sorted(readable, key=self._behind)):
            log = self._brokers.log(place)
            position = self._positions[place]
            if not log.start <= position <= log.end:
                position = self._reset_position(place)
            end = max(self._end_of(place), position)
            if budget is not None:
                end = min(end, position + left // (len(readable) - number))
                left -= end - position
            self._positions[place] = end

    def _is_read(self, place: Place) -> bool:
        is_paused = any(
            (pause.topic is None or self._topics[pause.topic] == place[0])
            and pause.partition in (None, place[1])
            for pause in self._active(Pause)
        )
        return not is_paused and not self._active(CrashLoop) and self._brokers.can_be_used(place)

    def _behind(self, place: Place) -> int:
        return self._end_of(place) - self._positions[place]

    def _end_of(self, place: Place) -> int:
        """The position after all records that the group gets."""
        is_committed = self.group.isolation == "read_committed"
        ends = self._brokers.log(place).ends_before(self.group.delay_s)
        if self.group.commits_unchanged:
            # The consumer of Java moves its position past markers and aborted records.
            return ends.last_stable_offset if is_committed else ends.end
        return ends.committed_end if is_committed else ends.records_end

    def _begin_of(self, place: Place) -> int:
        if self.group.kind == "share":
            return self._committed.setdefault(place, self._reset_position(place))
        offset = self._brokers.coordinator.offsets.get(OffsetKey(self.group_id, *place))
        if offset is None or offset.committed_offset < 0:
            return self._reset_position(place)
        self._committed[place] = offset.committed_offset
        return offset.committed_offset

    def _reset_position(self, place: Place, policy: str = "") -> int:
        log = self._brokers.log(place)
        is_earliest = (policy or self.group.offset_reset) == "earliest"
        return log.start if is_earliest else log.last_stable_offset

    def _pause_s(self) -> int:
        paces = self._active(Pace)
        commit_s = [pace.commit_s for pace in paces] or self.group.commit_s
        self._commits += 1
        return commit_s[(self._commits - 1) % len(commit_s)]

    def _before_revoking(self, member: Member) -> None:
        if not self._active(CrashLoop):
            self._commit(member)

    def _commit(self, member: Member) -> None:
        """Commit the positions of a member."""
        if self._active(Silent):
            return
        offsets = {
            place: self._positions[place]
            for place in member.places
            if self._owners.get(place) is member and self._brokers.has(place)
            if self.group.commits_unchanged or self._positions[place] != self._committed.get(place)
        }
        if not offsets:
            return
        if self.group.kind == "share":
            self._acknowledge(offsets)
            return
        if self.members.commit(offsets, member, self._producer) and self._producer is None:
            self._committed |= offsets
        if self._producer is not None and not self._active(HangCommits):
            aborts = bool(self._active(AbortCommits))
            self._end_transaction(is_commit=not aborts)
            if aborts:
                self._go_back()
            else:
                self._committed |= offsets

    def _end_transaction(self, *, is_commit: bool) -> None:
        if self._producer is not None:
            self._brokers.coordinator.end_transaction(self._producer, is_commit=is_commit)

    def _go_back(self) -> None:
        """Read again from the committed offsets, after an aborted transaction."""
        for place in self._owners:
            self._positions[place] = self._begin_of(place)

    def _acknowledge(self, offsets: Mapping[Place, int]) -> None:
        """Write the delivery state of a share group, as its share coordinator does."""
        records = []
        for (topic, partition), start_offset in offsets.items():
            fields = {"groupId": self.group_id, "topicId": self._brokers.topics[topic].topic_id}
            value = {
                "snapshotEpoch": 0,
                "stateEpoch": 0,
                "leaderEpoch": 0,
                "startOffset": start_offset,
                "deliveryCompleteCount": 0,
                "createTimestamp": self._brokers.now_ms,
                "writeTimestamp": self._brokers.now_ms,
                "stateBatches": self._deliveries(start_offset),
            }
            key = {**fields, "partition": partition}
            records.append(record(SHARE_STATE_RECORD_TYPES[0], key, value))
        self._committed |= offsets
        self._brokers.share_log.append(records, self._brokers.now_ms)

    def _deliveries(self, start_offset: int) -> list[dict[str, int]]:
        """The records that members have released, and that are delivered again."""
        if not self._active(Pause):
            return []
        batch = {"firstOffset": start_offset, "lastOffset": start_offset, "deliveryState": 0}
        return [{**batch, "deliveryCount": 1 + self._commits % 5}]

    def _reset(self, event: Reset) -> None:
        """Set offsets without being a member."""
        offsets = {}
        for place in self.members.places():
            is_wanted = event.topic is None or self._topics[event.topic] == place[0]
            if is_wanted and event.partition in (None, place[1]):
                offset = event.offset
                offsets[place] = (
                    self._reset_position(place, offset) if isinstance(offset, str) else offset
                )
        if not self.members.commit(offsets, producer=self._producer):
            raise ConfigurationError(
                f"group {self.group_id} has members, so its offsets cannot be reset at "
                f"{self._t}s: stop it before"
            )
        self._positions.clear()
