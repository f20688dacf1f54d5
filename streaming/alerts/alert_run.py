"""Running the rules: look at the tables, tell what is due, remember, and again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from streaming.alerts.alert import Alert, AlertKey, Finding
from streaming.alerts.alert_states import due, next_alerts
from streaming.alerts.alerts_table import read_alerts, write_alerts
from streaming.alerts.facts import Facts
from streaming.alerts.notices import Notice
from streaming.alerts.rules import AlertRules
from streaming.alerts.rules_file import load_rules
from streaming.alerts.sinks import DeliveryError, Sink
from streaming.errors import ConfigurationError
from streaming.tables.reader import TableReader

logger = logging.getLogger(__name__)

_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 300.0


@dataclass(slots=True)
class _Patience:
    """How long a sink that fails is left alone: twice as long after each time."""

    wait_s: float = 0.0
    until: float = 0.0

    @property
    def is_waiting(self) -> bool:
        return time.monotonic() < self.until

    def note(self, *, has_failed: bool) -> None:
        self.wait_s = min(max(2 * self.wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S) if has_failed else 0
        self.until = time.monotonic() + self.wait_s


@dataclass(slots=True)
class AlertRun:
    """The rules of a file over the tables of a folder, one round after the other.

    Args:
        tables: the folder; `alerts` is made in it.
        rules_file: read again when it changes. Where it is wrong then, the rules of before hold.
    """

    tables: str
    rules_file: str
    rules: AlertRules = field(init=False)
    alerts: dict[AlertKey, Alert] = field(init=False)
    _rules_mtime_ns: int = field(init=False)
    _patience: dict[str, _Patience] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)
    """Troubles that were told and are not over."""

    def __post_init__(self) -> None:
        self._rules_mtime_ns = _mtime_ns(self.rules_file)
        self.rules = load_rules(self.rules_file)
        reader = TableReader(self.tables)
        self.alerts = read_alerts(reader)
        # SQL that fails is told before anything runs.
        facts = Facts(reader, reader.moment, self.rules.status_rules)
        for rule in self.rules.rules:
            if rule.sql is not None:
                facts.findings(rule)

    def run(self, stop: threading.Event) -> None:
        """Rounds until `stop` is set."""
        while not stop.is_set():
            began = time.monotonic()
            self.round()
            stop.wait(max(self.rules.interval.total_seconds() - (time.monotonic() - began), 0))

    def round(self) -> None:
        """Look once; whatever goes wrong is said once, and tried again with the next round."""
        self._reload()
        try:
            reader = TableReader(self.tables)
            now = reader.moment
            facts = Facts(reader, now, self.rules.status_rules)
            findings = {rule.name: self._findings(facts, rule.name) for rule in self.rules.rules}
        except Exception as error:
            self._trouble("tables", f"{self.tables} cannot be read: {_first_line(error)}")
            logger.debug("trace of the trouble above", exc_info=True)
            return
        self._well("tables")
        self._keep(next_alerts(self.alerts, findings, self.rules, now))
        self._keep(dict(self._told_to_sinks(reader.cluster_id, now)))

    def _reload(self) -> None:
        mtime_ns = _mtime_ns(self.rules_file)
        if mtime_ns == self._rules_mtime_ns:
            return
        self._rules_mtime_ns = mtime_ns
        try:
            self.rules = load_rules(self.rules_file)
        except ConfigurationError as error:
            self._trouble("rules", f"the rules of before hold: {error}")
        else:
            self._well("rules")
            logger.info("%s: %s rules", self.rules_file, len(self.rules.rules))

    def _findings(self, facts: Facts, name: str) -> Sequence[Finding] | None:
        rule = next(rule for rule in self.rules.rules if rule.name == name)
        try:
            found = facts.findings(rule)
        except ConfigurationError as error:
            self._trouble(f"rule {name}", str(error))
            return None
        self._well(f"rule {name}")
        return found

    def _keep(self, alerts: dict[AlertKey, Alert]) -> None:
        """Write what changed; what could not be written is known until it can."""
        has_changed = alerts != self.alerts or "alerts" in self._told
        self.alerts = alerts
        if not has_changed:
            return
        try:
            write_alerts(self.tables, alerts)
        except ConfigurationError as error:
            self._trouble("alerts", str(error))
        else:
            self._well("alerts")

    def _told_to_sinks(self, cluster_id: str, now: datetime) -> Iterator[tuple[AlertKey, Alert]]:
        """The alerts after every sink was told of what it is to know."""
        notices: dict[str, list[Notice]] = {name: [] for name in self.rules.sinks}
        notes = {rule.name: rule.note for rule in self.rules.rules}
        for alert in self.alerts.values():
            for name, is_repeat in due(alert, self.rules, self.rules.sinks, now).items():
                notices[name].append(
                    Notice(
                        alert=alert,
                        cluster_id=cluster_id,
                        note=notes.get(alert.rule, ""),
                        is_repeat=is_repeat,
                    )
                )
        waiting = {
            name: found
            for name, found in notices.items()
            if found and not self._patience.setdefault(name, _Patience()).is_waiting
        }
        taken: dict[str, list[Notice]] = {}
        if waiting:
            with ThreadPoolExecutor(len(waiting), thread_name_prefix="sink") as pool:
                jobs = {name: pool.submit(self._deliver, name, ns) for name, ns in waiting.items()}
            taken = {name: job.result() for name, job in jobs.items()}
        told = dict(self.alerts)
        for name, found in taken.items():
            for notice in found:
                told[notice.alert.key] = told[notice.alert.key].told(name, now)
        yield from told.items()

    def _deliver(self, name: str, notices: Sequence[Notice]) -> list[Notice]:
        """The notices that a sink took."""
        sink: Sink = self.rules.sinks[name]
        taken: list[Notice] = []
        try:
            for some in sink.batches(notices):
                sink.send(some)
                taken += some
        except DeliveryError as error:
            self._patience[name].note(has_failed=True)
            left = len(notices) - len(taken)
            self._trouble(f"sink {name}", f"{left} notices are not sent: {error}; trying again")
        else:
            self._patience[name].note(has_failed=False)
            self._well(f"sink {name}")
        return taken

    def _trouble(self, what: str, message: str) -> None:
        if what not in self._told:
            logger.warning("%s: %s", what, message)
        self._told.add(what)

    def _well(self, what: str) -> None:
        if what in self._told:
            logger.warning("%s: well again", what)
        self._told.discard(what)


def _mtime_ns(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
