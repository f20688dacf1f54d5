"""Files of alert rules: their settings, the comparisons in them, and how they are read.

docs/alerts.md explains the settings. Errors name the line of each mistake.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from coordinator_state.insight.group_status import Status, time_text
from streaming.alerts.sinks import Sink, StdoutSink, as_list
from streaming.alerts.yaml_file import FaultAt, document_of, read_text, validated
from streaming.errors import ConfigurationError
from streaming.kafka.secrets import is_text
from streaming.lag.group_lag import TOTALS_BY
from streaming.lag.recent_commits import KEY
from streaming.tables.durations import parse_duration
from streaming.tables.rows import Severity

DEFAULT_RULES: Final = Path(__file__).with_name("default_rules.yaml")
EVERY: Final = ("*",)

_REFERENCE: Final = re.compile(r"\$\{(?P<name>[^}]*)\}")
_TEXT: Final = "alerts.yaml"
"""The name of a text that is no file: its errors begin with `alerts.yaml:3`."""
_OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_COMPARISON: Final = re.compile(r"\s*(?P<operator>[<>]=?)\s*(?P<limit>\S.*?)\s*")


class Measure(NamedTuple):
    """A column of `group_lag`, and the function that combines its partitions into one value."""

    column: str
    total: Callable[[list[float]], float]
    is_time: bool = False
    is_age: bool = False
    """The value grows while the tables are behind, so that time is subtracted from it."""
    needs_lag: bool = False
    """Partitions with a lag of 0 do not have this measure."""
    needs_commit: bool = False
    """Partitions without a commit do not have this measure."""
    lower_bound: str | None = None
    """The column to use if `column` is null: the value is at least this."""
    is_lower_bound: str | None = None
    """The column that says that the value is a lower bound. It counts as the value: else a
    partition in which nothing new arrives would keep an alert from its end."""

    def proves(self, operator: str) -> bool:
        """Whether a comparison that holds for the known partitions holds for all of them."""
        return operator.startswith("<" if self.total is min else ">")


MEASURES: Final[Mapping[str, Measure]] = {
    "lag": Measure("lag", sum, is_lower_bound="is_lag_lower_bound"),
    "lag_to_last_stable": Measure("lag_to_last_stable", sum),
    "data_lost": Measure("data_lost", sum),
    "time_lag": Measure(
        "time_lag_ms",
        max,
        is_time=True,
        is_age=True,
        needs_lag=True,
        lower_bound="time_lag_at_least_ms",
    ),
    "retention_margin": Measure("retention_margin_ms", min, is_time=True, needs_lag=True),
    "commit_age": Measure("commit_age_ms", min, is_time=True, is_age=True, needs_commit=True),
    "commit_rate": Measure("commit_rate_per_s", sum),
    "produce_rate": Measure("produce_rate_per_s", sum),
}


AGEING: Final = frozenset(
    {"time_lag", "retention_margin", "commit_age", "commit_rate", "produce_rate"}
)
"""The measures that change although nothing is committed or produced."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison with a limit; times are in ms."""

    operator: str
    limit: float
    text: str

    @classmethod
    def of(cls, value: Any, *, is_time: bool) -> Comparison:
        """Parse a comparison.

        Raises:
            ValueError: the text is not a comparison.
        """
        example = "> 5m" if is_time else "> 1000"
        match = _COMPARISON.fullmatch(str(value))
        if match is None:
            raise ValueError(f"{value!r} is not a comparison such as {example!r}")
        text = match["limit"]
        try:
            limit = parse_duration(text).total_seconds() * 1000 if is_time else float(text)
        except ValueError as error:
            raise ValueError(f"{value!r} is not a comparison such as {example!r}") from error
        return cls(match["operator"], limit, f"{match['operator']} {text}")

    def holds(self, value: float) -> bool:
        """Whether a value meets the comparison."""
        return _OPERATORS[self.operator](value, self.limit)


def value_text(name: str, value: float) -> str:
    """The value of a measure as text; times get a unit.

    >>> value_text("lag", 1200.0), value_text("time_lag", 4210.0)
    ('1200', '4.2 s')
    """
    if MEASURES[name].is_time:
        return time_text(value)
    return str(int(value)) if float(value).is_integer() else f"{value:.3g}"


def _duration(value: Any) -> Any:
    return value if isinstance(value, timedelta) else parse_duration(str(value))


def _repeat(value: Any) -> Any:
    # YAML 1.1 parsers read a bare `off` as false.
    return None if value is False or value == "off" else _duration(value)


Duration = Annotated[timedelta, BeforeValidator(_duration)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(as_list), Field(min_length=1)]
"""Shell patterns: a name matches one of them, and none of those that begin with `!`."""
NumberLimit = Annotated[Comparison | None, BeforeValidator(partial(Comparison.of, is_time=False))]
TimeLimit = Annotated[Comparison | None, BeforeValidator(partial(Comparison.of, is_time=True))]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class _Notified(_Model):
    """How long a condition must hold, or not hold again, and which sinks get its alerts."""

    hold: Duration = Field(default=timedelta(0), alias="for")
    keep_firing_for: Duration = timedelta(0)
    severity: Severity = "warning"
    repeat: Annotated[timedelta | None, BeforeValidator(_repeat)] = timedelta(hours=4)
    sinks: Annotated[tuple[str, ...], BeforeValidator(as_list)] | None = None
    note: str = ""


class TablesUnreadable(_Notified):
    """The built-in alert that fires when the tables cannot be read."""

    name: ClassVar[str] = "tables_unreadable"
    # A store that is unreachable for some seconds needs no action.
    hold: Duration = Field(default=timedelta(minutes=1), alias="for")
    severity: Severity = "critical"


class TablesStale(_Notified):
    """The built-in alert that fires when nothing was written for longer than `stale_after`."""

    name: ClassVar[str] = "tables_stale"
    severity: Severity = "critical"


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
    status: Annotated[tuple[Status, ...], BeforeValidator(as_list)] | None = None
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
        tuple[Literal["group_id", "topic", "partition"], ...], BeforeValidator(as_list)
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


def load_rules(path: str | Path) -> AlertRules:
    """Read a file of rules.

    In `sinks`, `${NAME}` stands for an environment variable and `${file:PATH}` for the content of
    a file. The rules file itself then needs no secrets.

    Raises:
        ConfigurationError: the file is unreadable, not YAML, or not valid rules. The message has
            file, line, key and reason.
    """
    document = document_of(read_text(path, "rules"), path, key="rules")
    known = dict(document)
    if "sinks" in known:
        known["sinks"] = _resolved(known["sinks"], path)
    return validated(AlertRules, known, document, path)


def default_rules() -> AlertRules:
    """The rules of this package, for those who have no file of their own."""
    return load_rules(DEFAULT_RULES)


def rules_without_sinks(text: str) -> AlertRules:
    """Parse rules from a person who may not read secrets or files: all keys `sinks` are left out.

    Anchors and aliases are refused, because a short text with them can be a huge document.

    Raises:
        ConfigurationError: the text is not YAML, has an anchor, or is not valid rules.
    """
    document = document_of(text, _TEXT, key="rules", has_anchors=False)
    return validated(AlertRules, _without_sinks(document), document, _TEXT)


def _without_sinks(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_sinks(member) for name, member in value.items() if name != "sinks"}
    return [_without_sinks(member) for member in value] if isinstance(value, list) else value


def _resolved(value: Any, path: str | Path) -> Any:
    if isinstance(value, Mapping):
        return {name: _resolved(member, path) for name, member in value.items()}
    if isinstance(value, list):
        return [_resolved(member, path) for member in value]
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _referred(match["name"], path), value)
    return value


def _referred(name: str, path: str | Path) -> str:
    kind, colon, file = name.partition(":")
    if colon and kind == "file":
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot read ${{{name}}}: {error}") from error
        except UnicodeDecodeError:
            # `from None`: the error holds the whole content of the file.
            raise ConfigurationError(f"{path}: ${{{name}}} is not UTF-8") from None
    text = os.environ.get(name)
    if text is None:
        raise ConfigurationError(f"{path}: ${{{name}}}: environment variable {name} is not set")
    if not is_text(text):
        raise ConfigurationError(f"{path}: ${{{name}}} is not UTF-8")
    return text
