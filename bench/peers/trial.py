"""Puts one tool through the same steps as every other, and measures it.

A start on the log as it stands; a window in which nothing is committed; a window with commits;
single commits, each timed until the tool's answer has it; and the answer held against the broker's.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from statistics import median, quantiles
from typing import Any, Final

from bench.peers.log import Commits, WrittenLog
from bench.peers.tool import NoAnswer, Tool
from bench.peers.truth import Offsets, by_class, wrong_offsets
from bench.processes import memory_bytes, processor_s, used_s
from coordinator_state.replay.offsets import OffsetKey

logger = logging.getLogger(__name__)

_ASK_EVERY_S: Final = 0.2
_SCRAPE_EVERY_S: Final = 15.0
_MEMORY_EVERY_S: Final = 0.5
_COMMIT_EVERY_S: Final = 0.3
_LOOK_EVERY_S: Final = 0.02
_FRESH_WITHIN_S: Final = 60.0
_PERCENT: Final = 100
_SETTLED_S: Final = 20.0
"""After so long without a change, an answer that is wrong stays wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """How long the steps are."""

    deadline_s: float
    window_s: float
    commits_per_s: float
    """Requests, each of ten offsets."""
    fresh_commits: int


@dataclass(slots=True, kw_only=True)
class Start:
    """From the start of the processes to an answer; None: not before the deadline.

    `settled` is the last change of the number of wrong offsets: a tool that is never right has
    nothing better to come.
    """

    right_s: float | None = None
    settled_s: float | None = None
    settled_cpu_s: float | None = None
    wrong: int | None = None
    wrong_by_class: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Trial:
    """Figures of one tool."""

    tool: str
    settings: str
    starts: list[Start] = field(default_factory=list)
    start_after_commits: Start | None = None
    idle_cpu_s: float | None = None
    busy_cpu_s: float | None = None
    fresh_s: list[float] = field(default_factory=list)
    not_fresh: int = 0
    wrong: int | None = None
    wrong_by_class: dict[str, int] = field(default_factory=dict)
    peak_memory_bytes: int = 0
    load_average: float = 0.0

    @property
    def as_json(self) -> dict[str, Any]:
        """The figures, with the median and the 99th percentile of freshness."""
        return {**asdict(self), "fresh_p50_s": self.fresh(50), "fresh_p99_s": self.fresh(99)}

    def fresh(self, percent: int) -> float | None:
        """A percentile of the times until a commit was in the answer."""
        if len(self.fresh_s) < 2:
            return None
        if percent == 50:
            return median(self.fresh_s)
        return quantiles(self.fresh_s, n=_PERCENT, method="inclusive")[percent - 1]


class Judge:
    """Compares answers with the broker's."""

    def __init__(self, log: WrittenLog, truth: Callable[[], Offsets]) -> None:
        self.log = log
        self.truth = truth

    def first_answers(self, tool: Tool, began: float, deadline_s: float) -> Start:
        """Ask a tool that just started until it is right, stays wrong, or the deadline is over."""
        start, truth = Start(), self.truth()
        while time.monotonic() < began + deadline_s:
            tool.require_alive()
            try:
                answer = tool.offsets()
            except NoAnswer:
                time.sleep(_ASK_EVERY_S)
                continue
            passed_s = time.monotonic() - began
            wrong = wrong_offsets(self.log.classes, truth, answer)
            if len(wrong) != start.wrong:
                start.wrong, start.settled_s = len(wrong), passed_s
                start.settled_cpu_s = cpu_s(tool)
                start.wrong_by_class = by_class(self.log.classes, wrong)
            if not wrong:
                start.right_s = passed_s
                break
            if answer and start.settled_s is not None and passed_s > start.settled_s + _SETTLED_S:
                break
            time.sleep(_ASK_EVERY_S)
        return start

    def last_answer(self, tool: Tool, within_s: float) -> list[OffsetKey]:
        """The offsets that stay wrong when nothing is committed any more."""
        truth, wrong = self.truth(), list(self.log.classes)
        ends = time.monotonic() + within_s
        while wrong and time.monotonic() < ends:
            with suppress(NoAnswer):
                wrong = wrong_offsets(self.log.classes, truth, tool.offsets())
            time.sleep(_ASK_EVERY_S)
        return wrong


def measure_start(make: Callable[[], Tool], judge: Judge, deadline_s: float) -> Start:
    """One more start, with nothing behind it."""
    began = time.monotonic()
    with make() as tool:
        return judge.first_answers(tool, began, deadline_s)


def measure(make: Callable[[], Tool], judge: Judge, commits: Commits, steps: Steps) -> Trial:
    """All steps."""
    began = time.monotonic()
    with make() as tool:
        trial = Trial(tool=tool.name, settings=tool.settings)
        with _peak_memory(tool, trial):
            start = judge.first_answers(tool, began, steps.deadline_s)
            trial.starts.append(start)
            if start.wrong is None:
                logger.info("%s: no answer; commits follow in every log partition", tool.name)
                for _ in judge.log.busy_groups:
                    commits.commit_group()
                again = time.monotonic()
                trial.start_after_commits = judge.first_answers(tool, again, steps.deadline_s)
            if tool.pids:
                trial.idle_cpu_s = _window(tool, steps, lambda: None)
                trial.busy_cpu_s = _window(tool, steps, commits.commit_group)
                _measure_freshness(tool, trial, judge, commits, steps)
            wrong = judge.last_answer(tool, _SETTLED_S)
            trial.wrong = len(wrong)
            trial.wrong_by_class = by_class(judge.log.classes, wrong)
    return trial


def _window(tool: Tool, steps: Steps, commit: Callable[[], None]) -> float:
    """Processor time of a tool that is asked every 15 s, as Prometheus does."""
    before, began = processor_of(tool), time.monotonic()
    committed, asked_at = 0, began
    while (now := time.monotonic()) < began + steps.window_s:
        if now >= asked_at:
            asked_at += _SCRAPE_EVERY_S
            _ask(tool)
        if (now - began) * steps.commits_per_s > committed:
            commit()
            committed += 1
        time.sleep(_LOOK_EVERY_S)
    return used_s(before, processor_of(tool))


def _ask(tool: Tool) -> None:
    try:
        tool.offsets()
    except NoAnswer:
        logger.info("%s does not answer", tool.name)


def _measure_freshness(
    tool: Tool, trial: Trial, judge: Judge, commits: Commits, steps: Steps
) -> None:
    """Time single commits from their acknowledgement to the tool's answer."""
    standing = judge.truth()
    pauses = random.Random(3)
    waiting: dict[OffsetKey, tuple[int, float]] = {}
    number, next_at = 0, time.monotonic()
    while number < steps.fresh_commits or waiting:
        now = time.monotonic()
        if number < steps.fresh_commits and now >= next_at:
            key, offset = commits.commit_one(number, standing)
            waiting[key] = offset, time.monotonic()
            number += 1
            next_at = now + _COMMIT_EVERY_S * pauses.uniform(0.5, 1.5)
        if waiting:
            _take_fresh(tool, trial, waiting)
        time.sleep(_LOOK_EVERY_S)


def _take_fresh(tool: Tool, trial: Trial, waiting: dict[OffsetKey, tuple[int, float]]) -> None:
    try:
        answer = tool.offsets_of(waiting)
    except NoAnswer:
        answer = {}
    now = time.monotonic()
    for key, (offset, acknowledged) in list(waiting.items()):
        if answer.get(key) == offset:
            trial.fresh_s.append(now - acknowledged)
            del waiting[key]
        elif now > acknowledged + _FRESH_WITHIN_S:
            trial.not_fresh += 1
            del waiting[key]


def processor_of(tool: Tool) -> dict[int, float]:
    """Processor time of each process of a tool."""
    return {number: s for pid in tool.pids for number, s in processor_s(pid).items()}


def cpu_s(tool: Tool) -> float:
    """Processor time of all processes of a tool since they started."""
    return tool.ended_cpu_s + sum(processor_of(tool).values())


@contextmanager
def _peak_memory(tool: Tool, trial: Trial) -> Iterator[None]:
    """Note the most memory (PSS) of all processes of a tool together."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_MEMORY_EVERY_S):
            total_bytes = sum(map(memory_bytes, list(tool.pids)))
            trial.peak_memory_bytes = max(trial.peak_memory_bytes, total_bytes)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
