"""`demo`: a broker, live consumer groups, the query on their log, and both sides' answers.

Everything runs in this process, but for the JVMs of the broker and of Spark. All of it is started
inside one `ExitStack`, so it is stopped in the opposite order however the demo ends.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

from streaming.dashboard.app import serving_page
from streaming.engine.progress import OnProgress, ProgressEvent
from streaming.errors import ConfigurationError
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, DEMO_GROUPS, Clients, create_topics
from streaming.local.demo.report import DemoReport, read_report, show_report
from streaming.local.demo.traffic import Traffic
from streaming.metrics.server import open_browser
from streaming.run.progress_display import ProgressDisplay
from streaming.run.query import run_query
from streaming.run.session import build_session
from streaming.run.settings import RunSettings
from streaming.run.stderr import is_live, write_note
from streaming.tables.reader import TableReader
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verify import verify
from streaming.views.output import output_of

EXIT_DIFFERENT = 1

_POLL_S = 0.2
_PATIENCE_S = 600.0
"""For each stage: a loaded machine makes the demo slow, not wrong."""


def run_demo(
    *,
    seconds: float = math.inf,
    output: str = "text",
    folder: Path | str | None = None,
    dashboard: bool = True,
) -> int:
    """Run the demo and print its outcome; return the exit status, 0 where both sides are equal.

    Args:
        seconds: how long the traffic lasts while the query follows it; it lasts longer until each
            group has done what it is there to show. Without end, Ctrl-C ends the traffic.
        output: `text` or `json`.
        folder: a new or empty one, where broker data, tables and checkpoint stay. Without one, a
            temporary folder that is removed.
        dashboard: whether the page is served while the traffic runs.

    Raises:
        ConfigurationError: no Java, no jars, or `folder` holds something.
        TimeoutError: the query or a group did not get going.
    """
    with ExitStack() as running:
        report = _run(running, _work_folder(running, folder), seconds, dashboard)
        show_report(report, output_of(output), is_json=output == "json")
        write_note("stopping the query, the groups and the broker ...")
    return 0 if report.is_equal else EXIT_DIFFERENT


def _run(running: ExitStack, work: Path, seconds: float, dashboard: bool) -> DemoReport:
    tables = str(work / "tables")
    with ProgressDisplay(is_terminal=is_live()) as display:
        write_note("starting the broker ...")
        broker = EmbeddedBroker(folder=work / "broker", properties=BROKER_PROPERTIES)
        servers = running.enter_context(broker).bootstrap_servers
        broker.create_offsets_topic()
        create_topics(Clients(servers))
        write_note(f"Kafka {broker.version} at {servers}; starting Spark ...")
        traffic = running.enter_context(closing(Traffic(servers)))
        query = running.enter_context(closing(_QueryThread(servers, work, display)))
        query.start()
        query.wait_until_ready()
        write_note(f"the tables will be in {tables}")
        if dashboard:
            address = running.enter_context(serving_page({"demo": tables}))
            write_note(f"the page is at {address}")
            open_browser(address)
        _let_run(traffic, query, seconds)
        write_note("ending the traffic; one transaction stays open ...")
        traffic.stop(_PATIENCE_S)
        write_note("comparing the tables with the broker ...")
        return _compare(servers, tables, query)


def _let_run(traffic: Traffic, query: _QueryThread, seconds: float) -> None:
    """Let it last for `seconds`, and longer until all has happened that the demo is to show."""
    started_at = time.monotonic()
    try:
        duration = "until Ctrl-C" if math.isinf(seconds) else f"for {seconds:g} s"
        write_note(f"traffic of {len(DEMO_GROUPS)} groups {duration} ...")
        traffic.start()
        has_shown_all = False
        while True:
            waited_for = traffic.not_happened
            if not query.has_applied.is_set():
                waited_for = ["the query", *waited_for]
            if not waited_for and not has_shown_all:
                has_shown_all = True
                write_note("every group has done what it is there to show, and goes on ...")
            over_s = time.monotonic() - started_at - seconds
            if not waited_for and over_s >= 0:
                return
            if over_s > _PATIENCE_S:
                raise TimeoutError(f"these did not get going: {', '.join(waited_for)}")
            query.wait(_POLL_S)
    except KeyboardInterrupt:
        if not math.isinf(seconds):
            raise


def _compare(servers: str, tables: str, query: _QueryThread) -> DemoReport:
    def snapshot() -> TableAnswers:
        query.raise_if_ended()
        return TableAnswers(TableReader(tables))

    with BrokerAnswers(servers) as broker:
        verification = verify(broker, snapshot, timeout_s=_PATIENCE_S)
        return read_report(broker, TableReader(tables), verification)


class _QueryThread(threading.Thread):
    """Spark and the query.

    In a thread of its own, not only to run beside the traffic: in the main thread Spark would put
    a handler of its own in the place of Ctrl-C's.
    """

    def __init__(self, bootstrap_servers: str, work: Path, on_progress: OnProgress) -> None:
        super().__init__(name="query", daemon=True)
        self.has_applied = threading.Event()
        self._settings = RunSettings(
            bootstrap_servers=bootstrap_servers,
            tables=str(work / "tables"),
            checkpoint=str(work / "checkpoint"),
        )
        self._warehouse = work / "spark-warehouse"
        self._on_progress = on_progress
        self._is_ready = threading.Event()
        self._stop_asked = threading.Event()
        # Not join() and is_alive(): a join that Ctrl-C interrupts leaves a thread marked as ended
        # that runs on (CPython up to 3.12).
        self._has_ended = threading.Event()
        self._error: Exception | None = None

    def run(self) -> None:
        try:
            session = build_session(master=self._settings.master, warehouse=self._warehouse)
            self._is_ready.set()
            try:
                if not self._stop_asked.is_set():
                    run_query(
                        self._settings,
                        on_progress=self._take_progress,
                        stop=self._stop_asked,
                        session=session,
                    )
            finally:
                session.stop()
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self._error = error
        finally:
            self._has_ended.set()

    def wait_until_ready(self) -> None:
        """Wait until Spark is there."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self._is_ready.wait(_POLL_S):
            self.raise_if_ended()
            if time.monotonic() > deadline:
                raise TimeoutError(f"Spark was not there after {_PATIENCE_S:.0f} s")

    def wait(self, timeout_s: float) -> None:
        """Let some time go by while the query runs."""
        self._has_ended.wait(timeout_s)
        self.raise_if_ended()

    def raise_if_ended(self) -> None:
        """Raise what ended the query, which should run until `close`."""
        if self._error is not None:
            raise self._error
        if self._has_ended.is_set():
            raise RuntimeError("the query ended by itself")

    def close(self) -> None:
        """Let the micro-batch finish, and stop the query and Spark."""
        self._stop_asked.set()
        if self.ident is not None:
            self._has_ended.wait()

    def _take_progress(self, event: ProgressEvent) -> None:
        self.has_applied.set()
        self._on_progress(event)


def _work_folder(running: ExitStack, folder: Path | str | None) -> Path:
    if folder is None:
        temporary = tempfile.TemporaryDirectory(
            prefix="coordinator-state-demo-", ignore_cleanup_errors=True
        )
        return Path(running.enter_context(temporary))
    work = Path(folder).absolute()
    if work.exists() and (not work.is_dir() or any(work.iterdir())):
        raise ConfigurationError(f"{folder} is not an empty folder: the demo needs a new one")
    return work
