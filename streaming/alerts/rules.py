"""The settings of a YAML file of alert rules; docs/alerts.md explains them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from coordinator_state.insight.group_status import Status
from streaming.alerts.conditions import MEASURES, Comparison
from streaming.alerts.sinks import Sink, StdoutSink
from streaming.lag.group_lag import TOTALS_BY
from streaming.lag.recent_commits import KEY
from streaming.tables.durations import parse_duration
from streaming.yaml_file import FaultAt


def _duration(value: Any) -> Any:
    return value if isinstance(value, timedelta) else parse_duration(str(value))


def _repeat(value: Any) -> Any:
    # YAML 1.1 parsers read a bare `off` as false.
    return None if value is False or value == "off" else _duration(value)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _number(value: Any) -> Any:
    return Comparison.of(value, is_time=False)


def _time(value: Any) -> Any:
    return Comparison.of(value, is_time=True)


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_as_list), Field(min_length=1)]
"""Shell patterns: a name matches one of them, and none of those that begin with `!`."""
NumberLimit = Annotated[Comparison | None, BeforeValidator(_number)]
TimeLimit = Annotated[Comparison | None, BeforeValidator(_time)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]

EVERY = ("*",)


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Notified(_Model):
    """How long a condition must hold, or not hold again, and which sinks get its alerts."""

    hold: Duration = Field(default=timedelta(0), alias="for")
    keep_firing_for: Duration = timedelta(0)
    severity: Literal["critical", "error", "warning", "info"] = "warning"
    repeat: Annotated[timedelta | None, BeforeValidator(_repeat)] = timedelta(hours=4)
    sinks: Annotated[tuple[str, ...], BeforeValidator(_as_list)] | None = None
    note: str = ""


class TablesUnreadable(_Notified):
    """The built-in alert that fires when the tables cannot be read."""

    name: ClassVar[str] = "tables_unreadable"
    # A store that is unreachable for some seconds needs no action.
    hold: Duration = Field(default=timedelta(minutes=1), alias="for")
    severity: Literal["critical", "error", "warning", "info"] = "critical"


class TablesStale(_Notified):
    """The built-in alert that fires when nothing was written for longer than `stale_after`."""

    name: ClassVar[str] = "tables_stale"
    severity: Literal["critical", "error", "warning", "info"] = "critical"


class Rule(_Notified):
    """One rule: its condition, the groups it applies to, `for` and the sinks.

    The condition is `status` and any measures (all that are given must hold), or only
    `tables_behind`, or only `sql`. docs/alerts.md explains the fields.
    """

    name: Name
    # A value around a limit, or a status that comes back, is one alert.
    keep_firing_for: Duration = timedelta(minutes=1)
    groups: Patterns = EVERY
    topics: Patterns = EVERY
    by: Literal["group", "topic", "partition"] = "group"
    status: Annotated[tuple[Status, ...], BeforeValidator(_as_list)] | None = None
    lag: NumberLimit = None
    lag_to_last_stable: NumberLimit = None
    data_lost: NumberLimit = None
    time_lag: TimeLimit = None
    retention_margin: TimeLimit = None
    commit_age: TimeLimit = None
    commit_rate: NumberLimit = None
    produce_rate: NumberLimit = None
    tables_behind: TimeLimit = None
    sql: str | None = Field(default=None, min_length=1)

    @field_validator("status")
    @classmethod
    def _without_err(cls, status: tuple[Status, ...] | None) -> tuple[Status, ...] | None:
        if status is not None and (not status or Status.ERR in status):
            raise ValueError(
                "expected one or more of the statuses in docs/status.md (not ERR: it is Burrow's)"
            )
        return status

    @model_validator(mode="after")
    def _has_one_condition(self) -> Rule:
        kinds = [
            bool(self.status or self.limits),
            self.tables_behind is not None,
            self.sql is not None,
        ]
        if sum(kinds) != 1:
            names = f"status, {', '.join(MEASURES)}"
            raise ValueError(
                f"a rule needs one condition: any of {names}; or only tables_behind; or only sql"
            )
        if self.tables_behind is not None and (self.groups, self.topics) != (EVERY, EVERY):
            raise ValueError("tables_behind applies to all groups: remove groups and topics")
        return self

    @property
    def limits(self) -> dict[str, Comparison]:
        """The comparisons of the rule by measure."""
        return {name: limit for name in MEASURES if (limit := getattr(self, name)) is not None}

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that identify an alert of this rule."""
        return TOTALS_BY.get(self.by, tuple(KEY))


AnyRule: TypeAlias = Rule | TablesUnreadable | TablesStale
_BUILT_IN = (TablesUnreadable.name, TablesStale.name)


class Silence(_Model):
    """Suppresses notices of firing alerts for some time; resolved notices are still sent."""

    rules: Patterns = EVERY
    groups: Patterns = EVERY
    topics: Patterns = EVERY
    since: datetime | None = Field(default=None, alias="from")
    until: datetime
    note: str = ""

    @field_validator("since", "until")
    @classmethod
    def _in_utc(cls, moment: datetime | None) -> datetime | None:
        if moment is None or moment.tzinfo:
            return moment
        return moment.replace(tzinfo=timezone.utc)


class Inhibition(_Model):
    """Suppresses notices of some rules while an alert of another rule with equal keys fires."""

    when: Patterns
    mute: Patterns
    equal: Annotated[
        tuple[Literal["group_id", "topic", "partition"], ...], BeforeValidator(_as_list)
    ] = ("group_id",)


class AlertRules(_Model):
    """The content of a rules file."""

    interval: Duration = timedelta(seconds=2)
    sinks: dict[Name, Sink] = Field(default={"stdout": StdoutSink(type="stdout")}, min_length=1)
    rules: tuple[Rule, ...]
    tables_unreadable: TablesUnreadable = TablesUnreadable()
    tables_stale: TablesStale = TablesStale()
    silences: tuple[Silence, ...] = ()
    inhibit: tuple[Inhibition, ...] = ()

    @field_validator("interval")
    @classmethod
    def _in_range(cls, interval: timedelta) -> timedelta:
        # Alertmanager resolves an alert that is not repeated within some minutes.
        if not timedelta(milliseconds=100) <= interval <= timedelta(minutes=1):
            raise ValueError("must be from 0.1s to 1m")
        return interval

    @model_validator(mode="before")
    @classmethod
    def _without_status_rules(cls, content: Any) -> Any:
        if isinstance(content, dict) and "status_rules" in content:
            raise FaultAt(
                ["status_rules"],
                "status_rules belong to `run`, so that page, metrics and SQL agree: move them to "
                "the table [status_rules] of its config file (docs/status.md)",
            )
        return content

    @model_validator(mode="after")
    def _check_names(self) -> AlertRules:
        if not self.rules:
            raise ValueError("there are no rules")
        for number, rule in enumerate(self.rules):
            if rule.name in _BUILT_IN:
                raise FaultAt(
                    ["rules", number],
                    f"the rule name {rule.name} is reserved: configure this built-in alert "
                    f"with the key {rule.name} next to rules",
                )
        names = [rule.name for rule in self.all]
        for number, rule in enumerate(self.rules):
            if rule.name in names[:number]:
                raise FaultAt(["rules", number], f"two rules have the name {rule.name}")
            self._check_sinks(["rules", number], rule)
        for built_in in (self.tables_unreadable, self.tables_stale):
            self._check_sinks([built_in.name], built_in)
        for number, inhibition in enumerate(self.inhibit):
            for key, patterns in (("when", inhibition.when), ("mute", inhibition.mute)):
                if not any(fits(patterns, name) for name in names):
                    message = f"no rule name matches {', '.join(patterns)}"
                    raise FaultAt(["inhibit", number, key], message)
        return self

    def _check_sinks(self, place: Sequence[int | str], rule: AnyRule) -> None:
        unknown = sorted(set(rule.sinks or ()) - set(self.sinks))
        if unknown:
            raise FaultAt([*place, "sinks"], f"unknown sink {', '.join(unknown)}")

    @property
    def all(self) -> tuple[AnyRule, ...]:
        """The rules of the file and the built-in ones."""
        return (*self.rules, self.tables_unreadable, self.tables_stale)

    def sinks_of(self, rule: AnyRule) -> Sequence[str]:
        """The names of the sinks that get a rule's alerts."""
        return tuple(self.sinks) if rule.sinks is None else rule.sinks


def fits(patterns: Sequence[str], name: str | None) -> bool:
    """Whether a name matches the patterns; no name (None) matches only `EVERY`.

    >>> fits(("pay*", "!*-test"), "payments"), fits(("pay*", "!*-test"), "pay-test")
    (True, False)
    >>> fits(("!*-test",), "payments"), fits(("*",), None), fits(("pay*",), None)
    (True, True, False)
    """
    if name is None:
        return tuple(patterns) == EVERY
    wanted = [pattern for pattern in patterns if not pattern.startswith("!")]
    if any(fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)
