"""A `run` that is killed again and again while groups work: `python -m tests.kills --kills 200`.

The groups of the demo, and some odder ones, commit, rebalance, set back, delete and use
transactions on a real broker. `run` is started, killed with SIGKILL (it, Spark's JVM, planner and
workers) and started again on the same folders: at each of `fault_points.POINTS`, and at random
moments, be it while it starts or in the middle of a micro-batch. Every 25 kills the groups rest,
and all tables, history included, are held row by row against those of one load that nobody
disturbed, and against the broker's own answers. A point that was never reached is an error.
"""

from __future__ import annotations

import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import click

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.local.demo.traffic import Traffic
from streaming.run.stderr import write_note
from streaming.tables.schemas import ALL_TABLES, OFFSET_COMMITS, STATUS_CHANGES
from streaming.views.output import output_of
from tests.kills.comparison import compare_at_rest
from tests.kills.fault_points import (
    INITIAL_OFFSET,
    POINTS,
    POINTS_OF_CREATION,
    POINTS_OF_ROLL_BACK,
    POINTS_OF_SPARK,
    POINTS_OF_UPKEEP,
)
from tests.kills.killed_tables import KilledTables
from tests.support.clients.odd_traffic import OddTraffic

RANDOM_MOMENT: Final = "a random moment"
KILLS_BETWEEN_COMPARISONS: Final = 25
_PATIENCE_S: Final = 300.0
# Lives end before the first micro-batch, in it, or some micro-batches later.
_LIFE: Final = 1.5
_LONGEST_S: Final = 60.0
_USUAL_S: Final = 12.0
_MOST_ATTEMPTS: Final = 6
# Slower than the demo: the machine is there for the starts.
_STEP_INTERVAL_S: Final = 0.3
_OF_POINTS: Final = 0.6
_WITH_AVAILABLE_NOW: Final = 0.25
_DIFFERENCES_SHOWN: Final = 20
# Where a second time is another start's, or far away.
_ONCE: Final = frozenset(
    {
        *(INITIAL_OFFSET, *POINTS_OF_ROLL_BACK, *POINTS_OF_UPKEEP),
        *(point for point in POINTS if point.endswith(STATUS_CHANGES.name)),
    }
)
_OPTIONS: Final = {
    "plain": ("--max-records-per-trigger", "2000"),
    "feed": ("--change-data-feed",),
    "spark": ("--engine", "spark"),
}
_KINDS: Final = {"driver": ("plain", "feed"), "spark": ("spark",)}
# Delta Lake on Spark needs more code cache than the JVM has with one compiler.
SHORT_LIVED: Final = {
    "JDK_JAVA_OPTIONS": ("-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")
}


@dataclass(slots=True, kw_only=True)
class Survived:
    """What was tried, and what differs.

    `kills` counts by point; `rows` are those of the last load that nobody disturbed.
    """

    kills: Counter[str] = field(default_factory=Counter)
    never_reached: list[str] = field(default_factory=list)
    comparisons: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)


def mixed(kills: int, seed: int, points_of_kinds: Sequence[str] = POINTS) -> list[str]:
    """Points and random moments for so many kills; every point at least once if they are enough."""
    choose = random.Random(seed)
    of_points = int(kills * _OF_POINTS)
    if kills < len(points_of_kinds):
        passes = [choose.sample(points_of_kinds, of_points)]
    else:
        passes = [list(points_of_kinds) for _ in range(max(1, of_points // len(points_of_kinds)))]
    moments = kills - sum(map(len, passes))
    plan: list[str] = []
    for number, points in enumerate(passes):
        share = moments // len(passes) + (number < moments % len(passes))
        points += [RANDOM_MOMENT] * share
        choose.shuffle(points)
        # A folder is new once, and must grow before there is anything to tidy up.
        plan += sorted(points, key=_turn)
    return plan


def _turn(point: str) -> int:
    if point in POINTS_OF_CREATION:
        return 0
    if point == INITIAL_OFFSET:
        return 1
    return 3 if point in POINTS_OF_UPKEEP else 2


def kill_again_and_again(
    folder: Path,
    plan: Sequence[str],
    seed: int,
    kinds: Sequence[str] = _KINDS["driver"],
    most_passes: int = 3,
) -> Survived:
    """Go through a plan with a folder of each kind; everything is written below `folder`.

    A process is killed when it is at a point for the N-th time, with N up to `most_passes`. The
    creation of tables has a point for each table.
    """
    with EmbeddedBroker(folder=folder / "broker", properties=BROKER_PROPERTIES) as broker:
        broker.create_offsets_topic()
        create_topics(Clients(broker.bootstrap_servers))
        killing = _Killing(broker, folder, random.Random(seed), deque(plan), kinds, most_passes)
        while killing.is_left and not killing.survived.differences:
            killing.round()
    survived = killing.survived
    survived.never_reached = sorted(set(plan) - survived.kills.keys())
    return survived


class _Killing:
    """Goes through a plan; a point that was not reached comes again later."""

    def __init__(
        self,
        broker: EmbeddedBroker,
        folder: Path,
        choose: random.Random,
        plan: deque[str],
        kinds: Sequence[str],
        most_passes: int,
    ) -> None:
        self.survived = Survived()
        self._broker = broker
        self._folder = folder
        self._choose = choose
        self._left = plan
        self._attempts: Counter[str] = Counter()
        # How long it took from a start to a point: who else works on the machine changes it.
        self._usual_s = deque([_USUAL_S], maxlen=5)
        self._kinds = kinds
        self._most_passes = most_passes
        self._tables = [self._new(kind) for kind in kinds]

    @property
    def is_left(self) -> bool:
        return bool(self._left)

    def round(self) -> None:
        """Some kills while groups work, and a comparison when they rest."""
        servers = self._broker.bootstrap_servers
        with OddTraffic(servers) as odd:
            with closing(Traffic(servers, step_interval_s=_STEP_INTERVAL_S)) as traffic:
                traffic.start()
                end = self.survived.kills.total() + KILLS_BETWEEN_COMPARISONS
                while self._left and self.survived.kills.total() < end:
                    self._try(self._left.popleft())
                traffic.stop(_PATIENCE_S)
            odd.rest()
            comparison = compare_at_rest(self._broker, self._tables, self._folder / "undisturbed")
            self.survived.comparisons += 1
            self.survived.rows = comparison.rows
            self.survived.differences += comparison.differences
        del self._tables[len(self._kinds) :]

    def _try(self, point: str) -> None:
        self._attempts[point] += 1
        if point in POINTS_OF_ROLL_BACK:
            tables = self._some()
            # There must be something to roll back.
            if not self._die(tables, f"after {OFFSET_COMMITS.name}"):
                return self._again(point)
            is_reached = self._die(tables, point)
        elif point in POINTS_OF_CREATION:
            is_reached = self._die(self._young(), point)
        else:
            is_reached = self._die(self._some(point), point)
        return None if is_reached else self._again(point)

    def _again(self, point: str) -> None:
        if self._attempts[point] < _MOST_ATTEMPTS:
            self._left.append(point)

    def _die(self, tables: KilledTables, point: str) -> bool:
        choose, survived = self._choose, self.survived
        available_now = choose.random() < _WITH_AVAILABLE_NOW and point != RANDOM_MOMENT
        is_reached: bool | None = True
        if point == RANDOM_MOMENT:
            tables.die_after(choose.uniform(1, min(_LIFE * max(self._usual_s), _LONGEST_S)))
        else:
            number = min(self._most_passes, choose.choice((1, 1, 1, 2, 3)))
            if available_now or point in _ONCE:
                number = 1
            if point in POINTS_OF_CREATION:
                number = choose.randint(tables.tables_there + 1, len(ALL_TABLES))
            began = time.monotonic()
            write_note(f"{tables.folder.name}: waits for {point}, number {number}")
            is_reached = tables.die_at(point, number, available_now=available_now)
            if is_reached:
                self._usual_s.append(time.monotonic() - began)
        name = tables.folder.name
        moment = point if is_reached else f"a random moment, for want of: {point}"
        if is_reached is None:
            write_note(f"{name}: ended before {point}")
            return False
        survived.kills[point if is_reached else RANDOM_MOMENT] += 1
        write_note(
            f"kill {survived.kills.total()}, {name}: {moment}"
            f"{', --available-now' if available_now else ''}"
            f"; load_progress is at version {tables.version}"
        )
        return is_reached

    def _some(self, point: str = "") -> KilledTables:
        # What is young has nothing to tidy up.
        old = self._tables[: len(self._kinds)]
        return self._choose.choice(old if point in POINTS_OF_UPKEEP else self._tables)

    def _young(self) -> KilledTables:
        """A folder that lacks tables."""
        if self._tables[-1].tables_there == len(ALL_TABLES):
            self._tables.append(self._new(self._choose.choice(self._kinds)))
        return self._tables[-1]

    def _new(self, kind: str) -> KilledTables:
        number = len(list(self._folder.glob(f"{kind}-*")))
        folder = self._folder / f"{kind}-{number}"
        folder.mkdir()
        return KilledTables(
            servers=self._broker.bootstrap_servers, folder=folder, options=_OPTIONS[kind]
        )


@click.command()
@click.option("--kills", default=200, show_default=True)
@click.option("--seed", default=time.time_ns, help="What is done depends on.  [default: new]")
@click.option("--engine", type=click.Choice(list(_KINDS)), default="driver", show_default=True)
def main(kills: int, seed: int, engine: str) -> None:
    """Kill a run again and again, and compare; what differs, and what failed, is kept."""
    os.environ.update(SHORT_LIVED)
    folder = Path(tempfile.mkdtemp(prefix="coordinator-state-kills-"))
    write_note(f"seed {seed}, in {folder}")
    points = POINTS if engine == "driver" else (*POINTS, *POINTS_OF_SPARK)
    survived = kill_again_and_again(folder, mixed(kills, seed, points), seed, _KINDS[engine])
    if not survived.differences:
        shutil.rmtree(folder)
    for difference in survived.differences[:_DIFFERENCES_SHOWN]:
        write_note(difference)
    for point in survived.never_reached:
        write_note(f"never reached: {point}")
    reached = "\n".join(f"{count:6} {point}" for point, count in sorted(survived.kills.items()))
    output_of("text").result(
        {"seed": seed, **asdict(survived)},
        f"{reached}\nseed {seed}: {survived.kills.total()} kills; "
        f"{survived.comparisons} comparisons; rows {survived.rows}; "
        f"{len(survived.never_reached)} points never reached; "
        f"{len(survived.differences)} differences",
    )
    sys.exit(1 if survived.differences or survived.never_reached else 0)


if __name__ == "__main__":
    main()
