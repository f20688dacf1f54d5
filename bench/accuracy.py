"""`python -m bench.accuracy`: how right statuses are on scenarios, beside two other rules.

The scenarios are those of the tests, with the expectations of an engineer on call. The other rules
are those of Burrow, and an alert on `lag > 1000 for 5m`. All of them see the same tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from coordinator_state.insight.group_status import Status
from streaming.alerts.rules import default_rules
from streaming.lag.burrow_status import burrow_group_statuses
from streaming.local.scenario.judging import GroupLook, Judged, judge
from streaming.local.scenario.play import Cluster, Look
from streaming.local.scenario.scenario import LOOK_S, Expectation, load_scenario
from streaming.run.stderr import write_note
from streaming.views.output import OUTPUTS, output_of

SCENARIOS: Final = Path(__file__).resolve().parents[1] / "tests" / "scenarios"
_MOST_LAG: Final = 1_000
_LAG_FOR_S: Final = 300
_IN_TIME_S: Final = 60
"""An incident is found in time within this, or within the time that its scenario allows."""
_DAY_MIN: Final = 24 * 60

Key = tuple[str, str, int]
"""A scenario, a group and the seconds since the begin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Rules to compare.

    Attributes:
        name: their name.
        is_alarm: whether somebody is called at a look.
        finds: whether a look shows the incident of an expectation.
    """

    name: str
    is_alarm: Callable[[Key, GroupLook], bool]
    finds: Callable[[Key, GroupLook, Expectation], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An incident of a scenario, and the looks from its begin to its end."""

    judged: Judged
    group: str
    number: int
    expectation: Expectation
    looks: Sequence[GroupLook]

    @property
    def allowed_s(self) -> int:
        """The delay within which it is found in time."""
        return max(self.expectation.within_s, _IN_TIME_S)

    def delay_s(self, rules: Rules) -> int | None:
        """The time from the begin to the first look that shows it; None if no look does."""
        name = self.judged.scenario.name
        for look in self.looks:
            if rules.finds((name, self.group, look.t), look, self.expectation):
                return look.t - self.expectation.from_s
        return None

    @property
    def is_cause_right(self) -> bool | None:
        """Whether the first cause is right when the incident is found; None if any is."""
        first = min((key for key in self.judged.causes if key[0] == self.number), default=None)
        if self.expectation.cause is None:
            return None
        return first is not None and self.judged.causes[first] in self.expectation.cause


def incidents_of(judged: Judged) -> list[Incident]:
    """The incidents of a scenario; an expectation within an earlier one is of the same incident."""
    incidents: list[Incident] = []
    for number, expectation in enumerate(judged.scenario.expect):
        group = judged.scenario.group_of(expectation)
        is_known = any(
            incident.group == group and incident.expectation.has(expectation.from_s)
            for incident in incidents
        )
        if expectation.is_incident and not is_known:
            looks = judged.looks_at(expectation)
            incidents.append(
                Incident(
                    judged=judged,
                    group=group,
                    number=number,
                    expectation=expectation,
                    looks=looks,
                )
            )
    return incidents


def lasting_lags(judged: Sequence[Judged]) -> set[Key]:
    """The looks at which the lag has been too great for too long."""
    firing: set[Key] = set()
    for each in judged:
        for group, looks in each.looks.items():
            since: int | None = None
            for look in looks:
                is_great = (look.lag or 0) > _MOST_LAG
                since = (look.t if since is None else since) if is_great else None
                if since is not None and look.t - since >= _LAG_FOR_S:
                    firing.add((each.scenario.name, group, look.t))
    return firing


def score(rules: Rules, judged: Sequence[Judged]) -> dict[str, Any]:
    """The row of some rules in the table; minutes a day are of one group."""
    incidents = [incident for each in judged for incident in incidents_of(each)]
    broken = {incident.judged.scenario.name for incident in incidents}
    healthy = [
        ((each.scenario.name, group, look.t), look)
        for each in judged
        if each.scenario.name not in broken
        for group, looks in each.looks.items()
        for look in looks
    ]
    alarms = sum(rules.is_alarm(key, look) for key, look in healthy)
    delay_by_incident = [(incident.delay_s(rules), incident.allowed_s) for incident in incidents]
    delays = [delay_s for delay_s, _ in delay_by_incident if delay_s is not None]
    in_time = sum(d is not None and d <= allowed_s for d, allowed_s in delay_by_incident)
    return {
        "rules": rules.name,
        "false_alarm_min_a_day": round(_DAY_MIN * alarms / max(len(healthy), 1), 1),
        "incidents_found": f"{len(delays)} of {len(incidents)}",
        "in_time": in_time,
        "delay_median_s": median(delays) if delays else None,
        "delay_max_s": max(delays, default=None),
    }


def false_alarms(every: Sequence[Rules], judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """The minutes of false alarm by each of the rules, for each healthy scenario with any."""
    rows = []
    for each in judged:
        if incidents_of(each):
            continue
        row: dict[str, Any] = {"scenario": each.scenario.name}
        for rules in every:
            alarms = sum(
                rules.is_alarm((each.scenario.name, group, look.t), look)
                for group, looks in each.looks.items()
                for look in looks
            )
            row[rules.name] = alarms * LOOK_S / 60
        if any(row[rules.name] for rules in every):
            rows.append(row)
    return rows


def judged_by_all(files: Sequence[Path]) -> tuple[list[Rules], list[Judged]]:
    """Play scenarios; return the alert rules and the looks."""
    burrow: dict[Key, str] = {}

    def on_look(look: Look, cluster: Cluster) -> None:
        rows = burrow_group_statuses(look.reader, at=look.at).select(["group_id", "status"])
        statuses = dict(zip(*rows.to_pydict().values(), strict=True))
        for (scenario, group), name in cluster.names.items():
            burrow[scenario, group, look.t] = statuses.get(name, Status.OK.value)
        if look.t % 1_200 == 0:
            write_note(f"{look.t // 60} min of {len(cluster.names)} groups")

    judged = judge([load_scenario(file) for file in files], default_rules(), on_look=on_look)
    great = lasting_lags(judged)
    return [
        Rules(
            name="coordinator-state",
            is_alarm=lambda _key, look: (
                look.status is not None and look.status.rank >= Status.STALL.rank
            ),
            finds=lambda _key, look, expectation: look.status in (expectation.status or ()),
        ),
        Rules(
            name="Burrow",
            is_alarm=lambda key, _look: burrow[key] == Status.ERR.value,
            finds=lambda key, _look, _expectation: burrow[key] != Status.OK.value,
        ),
        Rules(
            name=f"lag > {_MOST_LAG} for {_LAG_FOR_S // 60}m",
            is_alarm=lambda key, _look: key in great,
            finds=lambda key, _look, _expectation: key in great,
        ),
    ], judged


@click.command()
@click.option(
    "--scenarios",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=SCENARIOS,
    help="Folder with scenario files.  [default: tests/scenarios]",
)
@click.option("--output", type=click.Choice(OUTPUTS), default="text", show_default=True)
def bench(scenarios: Path, output: str) -> None:
    """Score statuses, Burrow's rules and an alert on lag on the same scenarios."""
    every, judged = judged_by_all(sorted(scenarios.glob("*.yaml")))
    rows = [score(rules, judged) for rules in every]
    output_of(output).rows(rows, tuple(rows[0]))
    alarms = false_alarms(every, judged)
    if alarms:
        output_of(output).rows(alarms, tuple(alarms[0]))
    output_of(output).rows([notices_and_causes(judged)], ("notices_a_day", "causes_right", "files"))
    late = late_incidents(every[0], judged)
    output_of(output).rows(late, ("late_or_slowest", "expected", "delay_s", "allowed_s"))


def notices_and_causes(judged: Sequence[Judged]) -> dict[str, Any]:
    """Notices of the default rules about healthy groups, and the share of right first causes."""
    incidents = [incident for each in judged for incident in incidents_of(each)]
    broken = {incident.judged.scenario.name for incident in incidents}
    looks = [
        look
        for each in judged
        if each.scenario.name not in broken
        for looks_at_group in each.looks.values()
        for look in looks_at_group
    ]
    days = len(looks) * LOOK_S / 86_400
    causes = [incident.is_cause_right for incident in incidents]
    known = [cause for cause in causes if cause is not None]
    return {
        "notices_a_day": round(sum(look.notices for look in looks) / max(days, 1e-9), 2),
        "causes_right": f"{sum(known)} of {len(known)}",
        "files": f"{len(judged) - len(broken)} healthy, {len(broken)} broken",
    }


def late_incidents(rules: Rules, judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """The incidents that some rules do not find in time, and the one with the greatest delay."""
    incidents = [incident for each in judged for incident in incidents_of(each)]
    slowest = max((incident.delay_s(rules) or 0 for incident in incidents), default=0)
    rows = []
    for incident in incidents:
        delay_s = incident.delay_s(rules)
        if delay_s is None or delay_s > incident.allowed_s or delay_s == slowest:
            expected = [status.value for status in incident.expectation.status or ()]
            rows.append(
                {
                    "late_or_slowest": incident.judged.scenario.name,
                    "expected": " or ".join(expected),
                    "delay_s": delay_s,
                    "allowed_s": incident.allowed_s,
                }
            )
    return rows


if __name__ == "__main__":
    bench()
