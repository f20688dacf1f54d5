"""Rounds of faults of a `run` with its tables in S3, and comparisons in between."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import ClassVar, Final
from unittest.mock import patch

import requests

from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, Clients, create_topics
from streaming.local.demo.traffic import Traffic
from tests.faults.faulty_store import COMMANDS
from tests.kills.comparison import compare_at_rest
from tests.kills.killed_tables import KilledTables
from tests.support.brokers.object_store import served_object_store
from tests.support.clients.odd_traffic import OddTraffic

PATIENCE_S: Final = 300.0
FAILED_START: Final = "a start without the store"
_STEP_INTERVAL_S: Final = 0.3


@dataclass(slots=True, kw_only=True)
class Endured:
    """The faults and the differences; `store` counts the faults of single requests."""

    rounds: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    store: dict[str, int] = field(default_factory=dict)
    comparisons: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)


class Store:
    """The S3 of a run; `environment` is that of the run, which the faults are for."""

    def __init__(self, sound: Mapping[str, str]) -> None:
        behind = sound["AWS_ENDPOINT_URL"].removeprefix("http://")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.faulty_store", behind],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: SimpleQueue[str] = SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._address = self._lines.get()
        self.environment = {**sound, "AWS_ENDPOINT_URL": self._address}

    def obey(self, command: str) -> None:
        """Give it a command of `faulty_store`, which holds for the next request."""
        answer = requests.post(self._address + COMMANDS, data=command, timeout=PATIENCE_S)
        answer.raise_for_status()

    def held(self, timeout_s: float) -> str | None:
        """The point at which the store holds a write; None if it held none in that time."""
        try:
            return self._lines.get(timeout=timeout_s)
        except Empty:
            return None

    def end(self) -> dict[str, int]:
        """Its faults, by kind."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        faults: dict[str, int] = json.loads(self._lines.get(timeout=PATIENCE_S))
        return faults

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line.strip())


class Trial(ABC):
    """Disturbs the runs of a folder of tables, and compares the tables when groups rest."""

    rounds_between_comparisons: ClassVar[int]

    def __init__(
        self,
        broker: EmbeddedBroker,
        tables: KilledTables,
        store: Store,
        choose: random.Random,
    ) -> None:
        self.endured = Endured()
        self.tables = tables
        self.store = store
        self.choose = choose
        self._broker = broker

    @abstractmethod
    def disturb(self, count: int) -> None:
        """Some rounds of faults; no run is left at the end."""

    def rounds(self, count: int) -> None:
        """Some rounds while groups work, and a comparison when they rest.

        After a difference there is nothing to compare: a run may not start again.
        """
        servers = self._broker.bootstrap_servers
        with OddTraffic(servers) as odd:
            with closing(Traffic(servers, step_interval_s=_STEP_INTERVAL_S)) as traffic:
                traffic.start()
                self.disturb(count)
                traffic.stop(PATIENCE_S)
            if self.endured.differences:
                return
            odd.rest()
            undisturbed = self.tables.folder.with_name("undisturbed")
            comparison = compare_at_rest(self._broker, [self.tables], undisturbed)
        self.endured.comparisons += 1
        self.endured.rows = comparison.rows
        self.endured.differences += comparison.differences


def endure(folder: Path, rounds: int, seed: int, engine: str, kind: type[Trial]) -> Endured:
    """Go through rounds of faults; everything is written below `folder`."""
    with _trial(folder, seed, engine, kind) as trial:
        left = rounds
        while left > 0 and not trial.endured.differences:
            trial.rounds(min(left, kind.rounds_between_comparisons))
            left -= kind.rounds_between_comparisons
        trial.endured.store = trial.store.end()
    return trial.endured


@contextmanager
def _trial(folder: Path, seed: int, engine: str, kind: type[Trial]) -> Iterator[Trial]:
    with ExitStack() as held:
        broker = held.enter_context(
            EmbeddedBroker(folder=folder / "broker", properties=BROKER_PROPERTIES)
        )
        broker.create_offsets_topic()
        create_topics(Clients(broker.bootstrap_servers))
        sound = held.enter_context(served_object_store())
        # This process compares, and has no faults.
        held.enter_context(patch.dict(os.environ, sound))
        tables = KilledTables(
            servers=broker.bootstrap_servers,
            folder=folder / "disturbed",
            options=("--engine", engine),
            address="s3a://bucket/tables",
            checkpoint_address="s3a://bucket/checkpoint" if engine == "spark" else None,
        )
        tables.folder.mkdir()
        yield kind(broker, tables, Store(sound), random.Random(seed))
