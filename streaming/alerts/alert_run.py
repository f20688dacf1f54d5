"""`alert run`: evaluates the rules in rounds, sends notices and writes the table `alerts`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from deltalake import DeltaTable

from streaming.alerts.alert import Alert, AlertKey, Alerts, AlertState, Finding, Notice, NoticeKind
from streaming.alerts.alert_states import due, next_alerts
from streaming.alerts.alerts_table import clean_up_alerts, open_alerts, read_alerts, write_alerts
from streaming.alerts.delivery import DeliveryError, SinkAwayError, TransientDeliveryError
from streaming.alerts.facts import Facts, sql_findings
from streaming.alerts.rules import AlertRules, TablesStale, TablesUnreadable, load_rules
from streaming.alerts.sinks import Sink
from streaming.alerts.sql_rules import SqlRules
from streaming.errors import TablesUnavailable, WriterFenced, first_line
from streaming.lag.paces import KnownPaces
from streaming.tables.clock import utc_now
from streaming.tables.folder import locked
from streaming.tables.reader import TableReader
from streaming.tables.rows import SEVERITIES
from streaming.tables.schemas import ALERTS
from streaming.tables.writer import Writer

logger = logging.getLogger(__name__)

_OUTAGE_PAUSE_S = 3.0
"""The pause after a failed attempt on a sink that is away: with a round of 2 s and the 5 s of an
attempt, a sink gets the notices within 10 s after it is back."""
_FIRST_BACK_OFF_S = 5.0
_LONGEST_BACK_OFF_S = 300.0
_SEND_S = 30.0
"""Time per round and sink for sending notices; the next round sends the rest."""
_RELOAD_EVERY_S = 60.0
_VALUES_EVERY_S = 60.0
"""The time between two writes of values that change while the alerts do not."""
_CLEAN_UP_EVERY_S = 3_600.0
LOCK_FILE = "_alerts.lock"
_RULES = "rules file (the previous rules stay active)"


@dataclass(slots=True)
class _BackOff:
    """The pause after a failure of a sink.

    It doubles with each further failure, unless the sink is away: a request that the sink refused,
    or may still accept, is not repeated soon.
    """

    pause_s: float = 0.0
    until: float = 0.0

    @property
    def is_pausing(self) -> bool:
        return time.monotonic() < self.until

    def record(self, *, has_failed: bool, is_away: bool) -> None:
        longer_s = min(max(2 * self.pause_s, _FIRST_BACK_OFF_S), _LONGEST_BACK_OFF_S)
        self.pause_s = (_OUTAGE_PAUSE_S if is_away else longer_s) if has_failed else 0
        self.until = time.monotonic() + self.pause_s


class AlertRun:
    """Evaluates the rules of a file over the tables of a folder, round after round.

    Args:
        tables: the tables folder; `run` creates the table `alerts` in it.
        rules_file: the path of the rules. They are reloaded when the file changes, and every
            minute, because the secrets that it names may have changed. If the file is no longer
            valid, the previous rules stay active.
        stop: ends `run`, also while a round sends notices.
    """

    def __init__(self, tables: str, rules_file: str, stop: threading.Event | None = None) -> None:
        self.tables = tables
        self.rules_file = rules_file
        self.stop = stop or threading.Event()
        self._sql = SqlRules(tables)
        self._read_rules()
        reader = TableReader(tables)
        self._cluster_id = reader.cluster_id
        self.alerts = read_alerts(reader)
        self._writer: Writer | None = None
        self._is_unwritten = self._has_new_values = False
        self._written_at = time.monotonic()
        self._can_be_opened = False
        self._cleaned_up_at = time.monotonic()
        self._paces = KnownPaces()
        self._back_offs: dict[str, _BackOff] = {}
        # The last logged message of each operation that fails.
        self._failures: dict[str, str] = {}

    def run(self) -> None:
        """Run rounds until `stop` is set.

        Raises:
            ConfigurationError: another `alert run` on this machine uses this tables folder.
            WriterFenced: a newer `alert run`, on any machine, has taken over.
        """
        with closing(self._sql), locked(self.tables, LOCK_FILE, "alert run"):
            with self._logging_failures("table alerts"):
                self._writer = open_alerts(self.tables)
            # The previous `alert run` may have sent notices since __init__ read the table.
            self.alerts = read_alerts(TableReader(self.tables))
            while not self.stop.is_set():
                began = time.monotonic()
                self.round()
                took_s = time.monotonic() - began
                # After a long round the pause is as long: rounds use at most half of a core.
                self.stop.wait(max(self.rules.interval.total_seconds() - took_s, took_s))

    def round(self) -> None:
        """Evaluate the rules once; a failure is logged once and retried in the next round."""
        with self._logging_failures(_RULES):
            self._reload()
        with self._logging_failures("alerts"):
            self._evaluate()
        with self._logging_failures("notices"):
            self._send_due()
        with self._logging_failures("cleanup of the table alerts"):
            self._clean_up()

    def _read_rules(self) -> None:
        self._rules_mtime_ns = _mtime_ns(self.rules_file)
        self._rules_read_at = time.monotonic()
        rules = load_rules(self.rules_file)
        self._sql.check(rules.rules)
        self.rules: AlertRules = rules

    def _reload(self) -> None:
        is_old = time.monotonic() - self._rules_read_at > _RELOAD_EVERY_S
        has_changed = _mtime_ns(self.rules_file) != self._rules_mtime_ns
        if is_old or has_changed or _RULES in self._failures:
            self._read_rules()

    def _evaluate(self) -> None:
        """Evaluate all rules over one snapshot and update the alerts."""
        now = utc_now()
        findings: dict[str, Sequence[Finding] | None] = {}
        facts: Facts | None = None
        unreadable: list[str] = []
        self._can_be_opened = False
        with self._logging_failures("tables", unreadable):
            reader = TableReader(self.tables)
            self._can_be_opened = True
            self._cluster_id, now = reader.cluster_id, reader.moment
            facts = Facts(reader, now, known=self._paces)
            findings = self._findings(facts, unreadable)
        key = AlertKey(TablesUnreadable.name)
        findings[key.rule] = [
            Finding(key, f"the tables cannot be read: {why}") for why in unreadable[:1]
        ]

        def state_of(key: AlertKey) -> str | None:
            state = None
            with self._logging_failures("states of resolved alerts"):
                state = None if facts is None else facts.state_of(key)
            return state

        self._update(next_alerts(self.alerts, findings, self.rules, now, state_of))

    def _findings(self, facts: Facts, unreadable: list[str]) -> dict[str, Sequence[Finding] | None]:
        """The findings by rule; appends to `unreadable` why a table cannot be read."""
        findings: dict[str, Sequence[Finding] | None] = {}
        with self._logging_failures(f"rule {TablesStale.name}", unreadable):
            findings[TablesStale.name] = facts.tables_stale()
        for rule in self.rules.rules:
            if rule.sql is None:
                # A rule without SQL can only fail because a table cannot be read.
                with self._logging_failures(f"rule {rule.name}", unreadable):
                    findings[rule.name] = facts.findings(rule)
        self._sql.ask(self.rules.rules, facts.snapshot)
        for rule in self.rules.rules:
            if rule.sql is not None and self._sql.is_answered(rule.sql):
                with self._logging_failures(f"rule {rule.name}", unreadable, TablesUnavailable):
                    answer = self._sql.answer(rule.sql)
                    findings[rule.name] = None if answer is None else sql_findings(rule, answer)
        return findings

    def _update(self, alerts: dict[AlertKey, Alert]) -> None:
        """Keep the alerts in memory and write changes; retries a failed write on the next call.

        New values alone, which change in each round, are written once a minute.
        """
        self._is_unwritten |= _without_values(alerts) != _without_values(self.alerts)
        self._has_new_values |= alerts != self.alerts
        self.alerts = alerts
        if self._has_new_values and time.monotonic() - self._written_at > _VALUES_EVERY_S:
            self._is_unwritten = True
        if not (self._is_unwritten and self._may_write):
            return
        with self._logging_failures("table alerts"):
            self._writer = self._writer or open_alerts(self.tables)
            write_alerts(self._writer, alerts)
            self._is_unwritten = self._has_new_values = False
            self._written_at = time.monotonic()

    @property
    def _may_write(self) -> bool:
        """Whether tables exist; a folder without tables may be the mount point of a lost volume."""
        return self._can_be_opened or DeltaTable.is_deltatable(ALERTS.path(self.tables))

    def _clean_up(self) -> None:
        if time.monotonic() - self._cleaned_up_at > _CLEAN_UP_EVERY_S:
            self._cleaned_up_at = time.monotonic()
            clean_up_alerts(self.tables)

    def _send_due(self) -> None:
        """Send the due notices to all sinks in parallel."""
        now = utc_now()
        due_now = {
            name: notices
            for name, notices in self._notices(now).items()
            if notices and not self._back_offs.setdefault(name, _BackOff()).is_pausing
        }
        if not due_now:
            return
        self._require_current()
        with ThreadPoolExecutor(len(due_now), thread_name_prefix="sink") as pool:
            jobs = {name: pool.submit(self._deliver, name, ns) for name, ns in due_now.items()}
        alerts, must_write = dict(self.alerts), False
        for name, job in jobs.items():
            for notice in job.result():
                alerts[notice.alert.key] = alerts[notice.alert.key].after_sending(name, now)
                # A keep-alive repeat is not worth a write: after a restart it is sent early.
                is_repeat = notice.kind is NoticeKind.REPEAT
                must_write |= not (is_repeat and self.rules.sinks[name].is_kept_alive)
        if must_write:
            self._update(alerts)
        else:
            self.alerts = alerts

    def _require_current(self) -> None:
        """Fail if a newer `alert run` has taken over; passes if the tables cannot be read.

        An unreadable folder must not stop the notices of `tables_unreadable`.
        """
        if self._writer is not None:
            with suppress(TablesUnavailable):
                self._writer.epoch.require_current(ALERTS)

    def _notices(self, now: datetime) -> Mapping[str, list[Notice]]:
        """The due notices by sink, firing ones first: a group may leave one rule for another.

        Then they are by severity and age, the newest first.
        """
        notices: dict[str, list[Notice]] = {name: [] for name in self.rules.sinks}
        notes = {rule.name: rule.note for rule in self.rules.all}
        alerts = self.alerts.values()
        newest_first = sorted(alerts, key=lambda alert: alert.since, reverse=True)
        for alert in sorted(newest_first, key=_urgency):
            for name, kind in due(alert, self.rules, now).items():
                notices[name].append(
                    Notice(
                        alert=alert,
                        cluster_id=self._cluster_id,
                        note=notes.get(alert.rule, ""),
                        kind=kind,
                    )
                )
        return notices

    def _deliver(self, name: str, notices: Sequence[Notice]) -> list[Notice]:
        """Send notices to a sink and return those that it accepted."""
        sink: Sink = self.rules.sinks[name]
        accepted: list[Notice] = []
        failure, is_away = "", False
        until = time.monotonic() + _SEND_S
        try:
            for batch in sink.batches(notices):
                if self.stop.is_set() or time.monotonic() > until:
                    break
                accepted_now, refusal = _sent(sink, batch)
                accepted += accepted_now
                failure = refusal or failure
        except TransientDeliveryError as error:
            failure, is_away = str(error), isinstance(error, SinkAwayError)
        except Exception as error:  # noqa: BLE001 - its text may contain secrets of the sink
            failure = type(error).__name__
        self._back_offs[name].record(has_failed=bool(failure), is_away=is_away)
        if failure:
            self._log_failure(f"sink {name}", f"{failure}; retrying")
        else:
            self._log_recovery(f"sink {name}")
        return accepted

    @contextmanager
    def _logging_failures(
        self,
        operation: str,
        failures: list[str] | None = None,
        kind: type[Exception] = Exception,
    ) -> Iterator[None]:
        """Log a failure of the block and its recovery once each; only `WriterFenced` passes.

        A failure of the given kind is also appended to `failures`.
        """
        try:
            yield
        except WriterFenced:
            raise
        except Exception as error:
            self._log_failure(operation, first_line(error))
            logger.debug("traceback of the failure above", exc_info=True)
            if failures is not None and isinstance(error, kind):
                failures.append(first_line(error))
        else:
            self._log_recovery(operation)

    def _log_failure(self, operation: str, message: str) -> None:
        if self._failures.get(operation) != message:
            logger.warning("%(operation)s: %(error)s", {"operation": operation, "error": message})
        self._failures[operation] = message

    def _log_recovery(self, operation: str) -> None:
        if self._failures.pop(operation, None) is not None:
            logger.warning("%(operation)s: recovered", {"operation": operation})


def _sent(sink: Sink, batch: Sequence[Notice]) -> tuple[list[Notice], str]:
    """The accepted notices of a batch, and why others were refused.

    If the sink refuses the batch, its notices are sent one by one.
    """
    try:
        sink.send(batch)
    except TransientDeliveryError:
        raise
    except DeliveryError as error:
        if len(batch) == 1:
            return [], str(error)
    else:
        return list(batch), ""
    accepted, last_refusal = [], ""
    for notice in batch:
        accepted_now, refusal = _sent(sink, [notice])
        accepted += accepted_now
        last_refusal = refusal or last_refusal
    return accepted, last_refusal


def _urgency(alert: Alert) -> tuple[bool, int]:
    return alert.state is AlertState.RESOLVED, SEVERITIES.index(alert.severity)


def _mtime_ns(path: str) -> int:
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def _without_values(alerts: Alerts) -> dict[AlertKey, Alert]:
    return {
        key: alert if alert.state is AlertState.RESOLVED else replace(alert, value=None, reason="")
        for key, alert in alerts.items()
    }
