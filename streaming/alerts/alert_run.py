"""Running the rules: look at the tables, tell what is due, remember, and again."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from deltalake import DeltaTable

from streaming.alerts.alert import Alert, AlertKey, Finding
from streaming.alerts.alert_states import due, next_alerts
from streaming.alerts.alerts_table import open_alerts, read_alerts, tidy_alerts, write_alerts
from streaming.alerts.delivery import DeliveryError, SinkAway
from streaming.alerts.facts import Facts, sql_findings
from streaming.alerts.notices import Notice
from streaming.alerts.rules import AlertRules, TablesUnreadable
from streaming.alerts.rules_file import load_rules
from streaming.alerts.sinks import Sink
from streaming.alerts.sql_rules import SqlRules
from streaming.errors import TablesUnavailable, WriterFenced, first_line
from streaming.tables.folder import locked
from streaming.tables.reader import TableReader
from streaming.tables.schemas import ALERTS
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)

_FIRST_WAIT_S = 5.0
_LONGEST_WAIT_S = 300.0
_MOST_TIME_S = 30.0
"""For so long a round tells a sink; what is left is for the next one."""
_RELOAD_EVERY_S = 60.0
_TIDY_EVERY_S = 3_600.0
LOCK_FILE = "_alerts.lock"
_RULES = "rules (the previous ones hold)"


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
        rules_file: read again when it changes, and every minute, since secrets that it names may
            be others. Where it is wrong then, the previous rules hold.
        stop: ends a round that is telling sinks.
    """

    tables: str
    rules_file: str
    stop: threading.Event = field(default_factory=threading.Event)
    _sql: SqlRules = field(init=False)
    rules: AlertRules = field(init=False)
    alerts: dict[AlertKey, Alert] = field(init=False)
    _writer: Writer | None = None
    _cluster_id: str = field(init=False)
    _rules_mtime_ns: int = field(init=False)
    _rules_read_at: float = field(init=False)
    _tidied_at: float = field(default_factory=time.monotonic)
    _is_unwritten: bool = False
    _can_be_opened: bool = False
    _patience: dict[str, _Patience] = field(default_factory=dict)
    _troubles: dict[str, str] = field(default_factory=dict)
    """What was told and is not over."""

    def __post_init__(self) -> None:
        self._sql = SqlRules(self.tables)
        self._read_rules()
        reader = TableReader(self.tables)
        self._cluster_id = reader.cluster_id
        self.alerts = read_alerts(reader)

    def run(self) -> None:
        """Rounds until `stop` is set.

        Raises:
            ConfigurationError: another process on this machine runs rules over this folder.
            WriterFenced: a newer one anywhere has taken over.
        """
        with closing(self._sql), locked(self.tables, LOCK_FILE, "alert run"):
            with self._noting("the table alerts"):
                self._writer = open_alerts(self.tables)
            # The run that this one takes over from may have told somebody since.
            self.alerts = read_alerts(TableReader(self.tables))
            while not self.stop.is_set():
                began = time.monotonic()
                self.round()
                took_s = time.monotonic() - began
                # Tables that take long to look at do not take a whole core.
                self.stop.wait(max(self.rules.interval.total_seconds() - took_s, took_s))

    def round(self) -> None:
        """Look once; whatever goes wrong is said once, and tried again with the next round."""
        with self._noting(_RULES):
            self._reload()
        with self._noting("alerts"):
            self._look()
        with self._noting("notices"):
            self._tell()
        with self._noting("old versions of the table alerts"):
            self._tidy()

    def _read_rules(self) -> None:
        self._rules_mtime_ns = _mtime_ns(self.rules_file)
        self._rules_read_at = time.monotonic()
        rules = load_rules(self.rules_file)
        self._sql.check(rules.rules)
        self.rules = rules

    def _reload(self) -> None:
        is_old = time.monotonic() - self._rules_read_at > _RELOAD_EVERY_S
        has_changed = _mtime_ns(self.rules_file) != self._rules_mtime_ns
        if is_old or has_changed or _RULES in self._troubles:
            self._read_rules()

    def _look(self) -> None:
        """The alerts after a look at the tables."""
        now = datetime.now(timezone.utc)
        findings: dict[str, Sequence[Finding] | None] = {}
        unreadable: list[str] = []
        self._can_be_opened = False
        with self._noting("tables", unreadable):
            reader = TableReader(self.tables)
            self._can_be_opened = True
            self._cluster_id, now = reader.cluster_id, reader.moment
            facts = Facts(reader, now, self.rules.status_rules)
            findings = self._findings(facts, unreadable)
        key = AlertKey(TablesUnreadable.name)
        findings[key.rule] = [
            Finding(key, f"the tables cannot be read: {why}") for why in unreadable[:1]
        ]
        self._keep(next_alerts(self.alerts, findings, self.rules, now))

    def _findings(self, facts: Facts, unreadable: list[str]) -> dict[str, Sequence[Finding] | None]:
        """By rule; also why tables cannot be read, where they cannot."""
        found: dict[str, Sequence[Finding] | None] = {}
        for rule in self.rules.rules:
            if rule.sql is None:
                # Nothing else can go wrong with one.
                with self._noting(f"rule {rule.name}", unreadable):
                    found[rule.name] = facts.findings(rule)
        self._sql.ask(self.rules.rules, facts.snapshot)
        for rule in self.rules.rules:
            if rule.sql is not None and self._sql.is_answered(rule.sql):
                with self._noting(f"rule {rule.name}", unreadable, TablesUnavailable):
                    answer = self._sql.answer(rule.sql)
                    found[rule.name] = None if answer is None else sql_findings(rule, answer)
        return found

    def _keep(self, alerts: dict[AlertKey, Alert]) -> None:
        """Write what changed; what could not be written is known until it can."""
        self._is_unwritten |= alerts != self.alerts
        self.alerts = alerts
        if not (self._is_unwritten and self._may_write):
            return
        with self._noting("the table alerts"):
            self._writer = self._writer or open_alerts(self.tables)
            write_alerts(self._writer, alerts)
            self._is_unwritten = False

    @property
    def _may_write(self) -> bool:
        """Nothing is made in a folder without tables: it may be where a volume is missing."""
        return self._can_be_opened or DeltaTable.is_deltatable(ALERTS.path(self.tables))

    def _tidy(self) -> None:
        if time.monotonic() - self._tidied_at > _TIDY_EVERY_S:
            self._tidied_at = time.monotonic()
            tidy_alerts(self.tables)

    def _tell(self) -> None:
        """Tell every sink what it is to know, all of them at once."""
        now = datetime.now(timezone.utc)
        waiting = {
            name: notices
            for name, notices in self._notices(now).items()
            if notices and not self._patience.setdefault(name, _Patience()).is_waiting
        }
        if not waiting:
            return
        self._require_current()
        with ThreadPoolExecutor(len(waiting), thread_name_prefix="sink") as pool:
            jobs = {name: pool.submit(self._deliver, name, ns) for name, ns in waiting.items()}
        told, is_news = dict(self.alerts), False
        for name, job in jobs.items():
            for notice in job.result():
                told[notice.alert.key] = told[notice.alert.key].told(name, now)
                # After a restart, who is told every minute may be told a minute early.
                is_news |= not (notice.is_repeat and self.rules.sinks[name].is_kept_alive)
        if is_news:
            self._keep(told)
        else:
            self.alerts = told

    def _require_current(self) -> None:
        """Send nothing once a newer run does; unreadable tables are sent as an alert, too."""
        if self._writer is not None:
            with suppress(TablesUnavailable):
                self._writer.epoch.require_current(ALERTS)

    def _notices(self, now: datetime) -> Mapping[str, list[Notice]]:
        """What is due, by sink."""
        found: dict[str, list[Notice]] = {name: [] for name in self.rules.sinks}
        notes = {rule.name: rule.note for rule in self.rules.all}
        for alert in self.alerts.values():
            for name, is_repeat in due(alert, self.rules, now).items():
                found[name].append(
                    Notice(
                        alert=alert,
                        cluster_id=self._cluster_id,
                        note=notes.get(alert.rule, ""),
                        is_repeat=is_repeat,
                    )
                )
        return found

    def _deliver(self, name: str, notices: Sequence[Notice]) -> list[Notice]:
        """The notices that a sink took."""
        sink: Sink = self.rules.sinks[name]
        taken: list[Notice] = []
        fault = ""
        until = time.monotonic() + _MOST_TIME_S
        try:
            for batch in sink.batches(notices):
                if self.stop.is_set() or time.monotonic() > until:
                    break
                took, refused = _sent(sink, batch)
                taken += took
                fault = refused or fault
        except SinkAway as error:
            fault = str(error)
        except Exception as error:  # noqa: BLE001 - its text may hold what the sink was set up with
            fault = type(error).__name__
        self._patience[name].note(has_failed=bool(fault))
        if fault:
            self._trouble(f"sink {name}", f"{fault}: trying again")
        else:
            self._well(f"sink {name}")
        return taken

    @contextmanager
    def _noting(
        self,
        what: str,
        faults: list[str] | None = None,
        kind: type[Exception] = Exception,
    ) -> Iterator[None]:
        """Log failures of the block, and their end; the loop goes on for months.

        `faults` is where faults of a kind are noted, too.
        """
        try:
            yield
        except WriterFenced:
            raise
        except Exception as error:
            self._trouble(what, first_line(error))
            logger.debug("trace of the trouble above", exc_info=True)
            if faults is not None and isinstance(error, kind):
                faults.append(first_line(error))
        else:
            self._well(what)

    def _trouble(self, what: str, message: str) -> None:
        if self._troubles.get(what) != message:
            logger.warning("%(what)s: %(error)s", {"what": what, "error": message})
        self._troubles[what] = message

    def _well(self, what: str) -> None:
        if self._troubles.pop(what, None) is not None:
            logger.warning("%(what)s: well again", {"what": what})


def _sent(sink: Sink, batch: Sequence[Notice]) -> tuple[list[Notice], str]:
    """What was taken of a batch, and why the rest was refused: one by one where all were not."""
    try:
        sink.send(batch)
    except SinkAway:
        raise
    except DeliveryError as error:
        if len(batch) == 1:
            return [], str(error)
    else:
        return list(batch), ""
    taken, fault = [], ""
    for notice in batch:
        took, refused = _sent(sink, [notice])
        taken += took
        fault = refused or fault
    return taken, fault


def _mtime_ns(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0
