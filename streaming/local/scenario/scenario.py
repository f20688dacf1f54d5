"""The format of scenario files; docs/scenarios.md explains it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from coordinator_state.insight.group_status import Cause, Status
from streaming.alerts.yaml_file import FaultAt, document_of, read_text, validated
from streaming.tables.durations import parse_duration

TICK_S: Final = 5
"""The time between two steps: clients act, and `run` samples the logs."""
LOOK_S: Final = 30
"""The time between two micro-batches, each with an evaluation of statuses and rules."""
BEGIN: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
"""When a scenario begins, unless somebody says otherwise."""
HEALTHY: Final = frozenset({Status.IDLE, Status.OK, Status.UNKNOWN, Status.EXPIRING})
"""The statuses of a group that needs nobody."""

_RATE: Final = re.compile(r"(?P<records>\d+(\.\d+)?) ?/ ?(?P<per>.+)")
_DURATION_SCHEMA: Final = {"type": "string", "pattern": r"^\d+(\.\d+)? ?[a-z]+$"}
_DURATION: Final = WithJsonSchema(_DURATION_SCHEMA)


def _one_or_more(schema: dict[str, Any]) -> Any:
    return WithJsonSchema({"anyOf": [schema, {"type": "array", "items": schema}]})


_NAMES: Final = _one_or_more({"type": "string"})


def _seconds(value: Any, *, most_ticks: bool = False) -> Any:
    seconds = parse_duration(str(value)).total_seconds()
    if seconds % TICK_S or (most_ticks and not seconds):
        raise ValueError(f"{value!r} is not a multiple of {TICK_S}s, the step of a scenario")
    return int(seconds)


def _rate(value: Any) -> Any:
    """Records per second, of a number or a text such as `3/10m`."""
    if isinstance(value, (int, float)):
        return float(value)
    match = _RATE.fullmatch(str(value))
    if match is None:
        raise ValueError(f"{value!r} is not a rate such as 100 (records/s) or 3/10m")
    per = match["per"] if match["per"][0].isdigit() else f"1{match['per']}"
    return float(match["records"]) / parse_duration(per).total_seconds()


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


Moment = Annotated[int, BeforeValidator(_seconds), _DURATION]
"""The time since the begin, in seconds."""
Span = Annotated[int, BeforeValidator(partial(_seconds, most_ticks=True)), _DURATION]
"""A time in seconds, at least a tick."""
Rate = Annotated[
    float,
    BeforeValidator(_rate),
    Field(ge=0),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}]}),
]
Names = Annotated[list[str], BeforeValidator(_as_list), Field(min_length=1), _NAMES]


def _of_enum(enum: type[Status] | type[Cause]) -> Any:
    return _one_or_more({"enum": [each.value for each in enum if each is not Status.ERR]})


Statuses = Annotated[
    list[Annotated[Status, Field(strict=False)]],
    BeforeValidator(_as_list),
    Field(min_length=1),
    _of_enum(Status),
]
Causes = Annotated[
    list[Annotated[Cause, Field(strict=False)]],
    BeforeValidator(_as_list),
    Field(min_length=1),
    _of_enum(Cause),
]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)


class _Instant(_Model):
    at_s: Moment = Field(alias="at", description="When it happens.")


class Window(_Model):
    """A time from a moment to another one, by default to the end."""

    from_s: Moment = Field(default=0, alias="from", description="The first moment.")
    to_s: Moment | None = Field(
        default=None, alias="to", description="The moment after the last one."
    )

    @model_validator(mode="after")
    def _is_in_order(self) -> Window:
        if self.to_s is not None and self.to_s <= self.from_s:
            raise ValueError("to must be after from")
        return self

    def has(self, t: float) -> bool:
        """Whether a moment is in the window."""
        return self.from_s <= t and (self.to_s is None or t < self.to_s)


class _During(Window):
    repeat_s: Span | None = Field(
        default=None, alias="repeat", description="The window comes back after this time: 1d."
    )

    def has(self, t: float) -> bool:
        """Whether a moment is in the window, or in a repetition of it."""
        if self.repeat_s is not None and t >= self.from_s:
            t = self.from_s + (t - self.from_s) % self.repeat_s
        return super().has(t)

    def begins(self, t: int) -> bool:
        """Whether the window, or a repetition of it, begins at a moment."""
        return self.has(t) and not self.has(t - TICK_S)

    def ends(self, t: int) -> bool:
        """Whether the window, or a repetition of it, has ended at a moment."""
        return self.has(t - TICK_S) and not self.has(t)


# --- topics


class Produce(_During):
    """Producers write at another rate."""

    do: Literal["produce"]
    rate: Rate


class Write(_Instant):
    """Something is appended to each partition at once."""

    do: Literal["write"]
    records: int = Field(ge=1, description="The number of offsets.")
    kind: Literal["records", "aborted", "markers", "gap"] = Field(
        default="records",
        alias="as",
        description="records; aborted: of an aborted transaction; markers: ends of transactions; "
        "gap: compaction has removed the records.",
    )


class AbortRecords(_During):
    """The transactions of the topic's producer are aborted, not committed."""

    do: Literal["abort"]


class HangRecords(Window):
    """Another producer has a transaction open: the last stable offset does not move."""

    do: Literal["hang"]


class DeleteRecords(_Instant):
    """The records before an offset are deleted from each partition, or all of them."""

    do: Literal["delete_records"]
    before: int | None = Field(default=None, description="An offset; by default the log end.")


class Unavailable(Window):
    """The partitions have no leader: nobody reads or writes, and nothing is sampled."""

    do: Literal["unavailable"]
    clients: bool = Field(default=True, description="false: only `run` cannot sample the logs.")


class DeleteTopic(_Instant):
    """The topic is deleted. Its offsets are deleted soon after, as brokers do."""

    do: Literal["delete"]


class CreateTopic(_Instant):
    """The topic is created again, with another topic id."""

    do: Literal["create"]
    partitions: int | None = Field(
        default=None, ge=1, le=100, description="The number of partitions; by default as before."
    )


class AddPartitions(_Instant):
    """The topic has more partitions from now on."""

    do: Literal["add_partitions"]
    partitions: int = Field(ge=2, description="The new number of partitions.")


TopicEvent: TypeAlias = Annotated[
    Produce
    | Write
    | AbortRecords
    | HangRecords
    | DeleteRecords
    | Unavailable
    | DeleteTopic
    | CreateTopic
    | AddPartitions,
    Field(discriminator="do"),
]


class Topic(_Model):
    """A topic and its producers."""

    partitions: int = Field(default=1, ge=1, le=100, description="The number of partitions.")
    rate: Rate = Field(default=0.0, description="Records per second in all partitions: 100, 3/10m.")
    transaction_s: Span | None = Field(
        default=None,
        alias="transactions",
        description="An exactly-once producer ends its transaction, and begins the next one, after "
        "each such time.",
    )
    retention_s: Span | None = Field(
        default=None, alias="retention", description="Records are deleted after this time."
    )
    events: list[TopicEvent] = Field(default=[], description="What happens to the topic.")

    @property
    def most_partitions(self) -> int:
        """The number of partitions after all events."""
        changed = [
            event.partitions or 0
            for event in self.events
            if isinstance(event, (AddPartitions, CreateTopic))
        ]
        return max([self.partitions, *changed])


# --- groups


class Stop(_During):
    """All members leave; at the end they come back."""

    do: Literal["stop"]


class Crash(_During):
    """All members die without a word, or some of them; at the end they are started again."""

    do: Literal["crash"]
    members: int | None = Field(default=None, ge=1, description="So many members; by default all.")


class Deploy(_Instant):
    """The members are replaced one after another, and go on at the committed offsets."""

    do: Literal["deploy"]
    each_s: Span = Field(default=30, alias="each", description="The time for each member.")


class Rejoin(Window):
    """Members leave and join again, one after another, for as long as it lasts."""

    do: Literal["rejoin"]
    every_s: Span = Field(default=20, alias="every", description="The time between two of them.")


class CrashLoop(Window):
    """All members come to a record that they cannot process, crash, and are started again."""

    do: Literal["crash_loop"]
    every_s: Span = Field(default=40, alias="every", description="The time between two starts.")


class Pause(_During):
    """The group does not read on in a topic or partition: a pause, or a record that it retries."""

    do: Literal["pause"]
    topic: str | None = None
    partition: int | None = None


class Slow(_During):
    """The group reads at another rate."""

    do: Literal["slow"]
    reading: Rate = Field(description="Records per second in all partitions.")


class Silent(_During):
    """The group reads, and commits nothing."""

    do: Literal["silent"]


class Pace(_During):
    """The group commits at another pace."""

    do: Literal["pace"]
    commit_s: Span = Field(alias="commits")


class AbortCommits(Window):
    """The transactions with the group's commits are aborted, and it reads the records again."""

    do: Literal["abort"]


class HangCommits(Window):
    """A transaction with the group's commits stays open; at the end it is aborted."""

    do: Literal["hang"]


class Reset(_Instant):
    """An administrator sets the offsets, as `kafka-consumer-groups --reset-offsets` does."""

    do: Literal["reset"]
    offset: int | Literal["earliest", "latest"]
    topic: str | None = None
    partition: int | None = None


class Subscribe(_Instant):
    """All members are started again with other topics."""

    do: Literal["subscribe"]
    topics: Names


class DeleteGroup(_Instant):
    """The group is deleted; it must be empty."""

    do: Literal["delete"]


GroupEvent: TypeAlias = Annotated[
    Stop
    | Crash
    | Deploy
    | Rejoin
    | CrashLoop
    | Pause
    | Slow
    | Silent
    | Pace
    | AbortCommits
    | HangCommits
    | Reset
    | Subscribe
    | DeleteGroup,
    Field(discriminator="do"),
]


class Group(_Model):
    """A group and its clients."""

    reads: Names = Field(description="A topic, or several.")
    kind: Literal["classic", "cooperative", "consumer", "share", "simple"] = Field(
        default="classic",
        description="classic: the eager classic protocol; cooperative: its cooperative assignor; "
        "consumer: KIP-848; share: a share group; simple: no members, as with assign().",
    )
    members: int = Field(default=1, ge=1, le=50, description="The number of members.")
    static: bool = Field(default=False, description="The members have a group.instance.id.")
    client: str | None = Field(
        default=None, description="One client id of all members; by default each has its own."
    )
    starts_s: Moment = Field(default=0, alias="starts", description="When the members start.")
    commit_s: Annotated[
        list[Span],
        BeforeValidator(_as_list),
        Field(min_length=1),
        _one_or_more(_DURATION_SCHEMA),
    ] = Field(
        default=[5],
        alias="commits",
        description="The time between two commits; of several times each in turn.",
    )
    commits_unchanged: bool = Field(
        default=True,
        description="As the consumer of Java does: commit an offset that has not moved, too, and "
        "move past markers and aborted records. librdkafka and Connect do neither.",
    )
    transactions: bool = Field(
        default=False, description="The commits are in transactions, as with exactly-once."
    )
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_uncommitted", description="isolation.level of the consumers."
    )
    offset_reset: Literal["earliest", "latest"] = Field(
        default="latest", description="auto.offset.reset of the consumers."
    )
    reading: Rate | None = Field(
        default=None, description="The most records per second in all partitions; by default all."
    )
    delay_s: Moment = Field(default=0, alias="delay", description="From a record to its commit.")
    in_turn_s: Span | None = Field(
        default=None, alias="in_turn", description="Read one partition at a time, for so long."
    )
    events: list[GroupEvent] = Field(default=[], description="What happens to the group.")


# --- run, and expectations


class Down(Window):
    """`run` is stopped; at the end it is started again."""


class Run(_Model):
    """The `run` that writes the tables."""

    brokers_ahead_s: Moment = Field(
        default=0, alias="brokers_ahead", description="By so much the brokers' clock is ahead."
    )
    brokers_behind_s: Moment = Field(
        default=0, alias="brokers_behind", description="By so much the brokers' clock is behind."
    )
    brokers_gain_s: Moment = Field(
        default=0, alias="brokers_gain", description="By so much their clock gains in each hour."
    )
    down: list[Down] = Field(default=[], description="Windows in which it is stopped.")


class Expectation(Window):
    """The right status, cause, alerts and notices in a window; every given key must hold."""

    group: str = Field(default="", description="By default the only group of the file.")
    within_s: Moment = Field(
        default=0,
        alias="within",
        description="For so long after `from` the group may still have another status.",
    )
    status: Statuses | None = Field(
        default=None, description="At each look the status is one of these."
    )
    cause: Causes | None = Field(
        default=None,
        description="The first cause of `explain` is one of these, at the first look with the "
        "status and at the last look.",
    )
    reason: str | None = Field(
        default=None, description="The reason of the status has this text at each look."
    )
    alerts: Annotated[list[str], BeforeValidator(_as_list), _NAMES] | None = Field(
        default=None,
        description="At each look, the rules with these names fire for the group, and no others.",
    )
    notices: int | None = Field(
        default=None, ge=0, description="So many notices about the group are sent in the window."
    )

    @property
    def is_incident(self) -> bool:
        """Whether somebody has to act on the group in this window."""
        return self.status is not None and not HEALTHY & {*self.status}

    @model_validator(mode="after")
    def _expects(self) -> Expectation:
        if all(
            getattr(self, name) is None
            for name in ("status", "cause", "reason", "alerts", "notices")
        ):
            raise ValueError("expected one of status, cause, reason, alerts, notices")
        return self


class Scenario(_Model):
    """A cluster with topics, groups and a `run`, and the expectations of its groups."""

    name: str = Field(default="", description="By default the name of the file.")
    about: str = Field(default="", description="One sentence for people.")
    lasts_s: Span = Field(default=7_200, alias="lasts", description="How long it is played.")
    topics: dict[str, Topic] = Field(min_length=1)
    groups: dict[str, Group] = Field(min_length=1)
    run: Run = Run()
    expect: list[Expectation] = Field(
        default=[], description="The right statuses, causes and alerts, by time."
    )

    @model_validator(mode="after")
    def _is_consistent(self, info: ValidationInfo) -> Scenario:
        for name, topic in self.topics.items():
            self._require_begun(["topics", name, "events"], topic.events)
        self._require_begun(["run", "down"], self.run.down)
        for name, group in self.groups.items():
            self._check_group(["groups", name], group)
        for number, expectation in enumerate(self.expect):
            self._check_expectation(["expect", number], expectation)
            if info.context is not None:
                _require_known(
                    ["expect", number, "alerts"],
                    expectation.alerts or (),
                    info.context,
                    "rules file",
                )
        return self

    def _require_begun(
        self, place: Sequence[int | str], events: Sequence[_Instant | Window]
    ) -> None:
        for number, event in enumerate(events):
            if isinstance(event, _Instant):
                self._require_during([*place, number, "at"], event.at_s)
            else:
                self._require_during([*place, number, "from"], event.from_s)

    def _require_during(self, place: Sequence[int | str], at_s: int) -> None:
        if at_s > self.lasts_s:
            message = f"is after the end of the scenario, which lasts {self.lasts_s}s"
            raise FaultAt(place, message)

    def _check_group(self, place: Sequence[int | str], group: Group) -> None:
        _require_known([*place, "reads"], group.reads, self.topics)
        self._require_during([*place, "starts"], group.starts_s)
        self._require_begun([*place, "events"], group.events)
        read = [*group.reads]
        for number, event in enumerate(group.events):
            if isinstance(event, Subscribe):
                _require_known([*place, "events", number, "topics"], event.topics, self.topics)
                read += event.topics
        for number, event in enumerate(group.events):
            if isinstance(event, (Pause, Reset)):
                event_place = [*place, "events", number]
                topics = read if event.topic is None else [event.topic]
                _require_known([*event_place, "topic"], topics, self.topics)
                last = max(self.topics[topic].most_partitions for topic in topics) - 1
                if event.partition is not None and not 0 <= event.partition <= last:
                    message = f"{', '.join(topics)} has no such partition, only 0 to {last}"
                    raise FaultAt([*event_place, "partition"], message)

    def _check_expectation(self, place: Sequence[int | str], expectation: Expectation) -> None:
        if expectation.group:
            _require_known([*place, "group"], [expectation.group], self.groups)
        elif len(self.groups) > 1:
            raise FaultAt(place, "name the group, there are several")
        if expectation.from_s >= self.lasts_s:
            raise FaultAt([*place, "from"], "from is after the end of the scenario")
        first_s = -(-(expectation.from_s + expectation.within_s) // LOOK_S) * LOOK_S
        end_s = self.lasts_s + 1 if expectation.to_s is None else expectation.to_s
        if first_s >= min(end_s, self.lasts_s + 1):
            raise FaultAt(
                place,
                f"nothing is compared, because there is one look in {LOOK_S}s and none between "
                "`from` + `within` and `to`",
            )

    def group_of(self, expectation: Expectation) -> str:
        """The group that an expectation is about."""
        return expectation.group or next(iter(self.groups))


def _require_known(
    place: Sequence[int | str], names: Sequence[str], known: Collection[str], file: str = "file"
) -> None:
    unknown = sorted({*names} - {*known})
    if unknown:
        raise FaultAt(place, f"the {file} has no {', '.join(unknown)}; it has {', '.join(known)}")


def load_scenario(path: str | Path, rules: Collection[str] | None = None) -> Scenario:
    """Read a scenario file.

    Args:
        path: the file.
        rules: the names of the alert rules that its expectations may name; None for any.

    Raises:
        ConfigurationError: the file is unreadable, not YAML, or no valid scenario. The message has
            file, line, key and reason.
    """
    document = document_of(read_text(path, "scenario"), path, key="topics")
    scenario = validated(Scenario, document, document, path, kind="scenario", context=rules)
    return scenario if scenario.name else scenario.model_copy(update={"name": Path(path).stem})
