"""The demo: a broker, live consumer groups, the query on their log, and the answers of both.

Everything runs in this process, except the JVMs of the broker and of Spark. One `ExitStack` starts
all parts, and stops them in reverse order however the demo ends.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from streaming.dashboard.app import serving_page
from streaming.engine.progress import OnProgress, ProgressEvent
from streaming.errors import ConfigurationError
from streaming.http.server import open_browser
from streaming.local.broker.embedded import EmbeddedBroker
from streaming.local.demo.groups import BROKER_PROPERTIES, DEMO_GROUPS, Clients, create_topics
from streaming.local.demo.report import DemoReport, read_report
from streaming.local.demo.traffic import Traffic
from streaming.run.loop_compilation import compiling_loops
from streaming.run.progress_display import ProgressDisplay
from streaming.run.query import run_query
from streaming.run.session import build_session
from streaming.run.settings import RunSettings
from streaming.run.stages import enter_stage
from streaming.run.stderr import is_live, write_note
from streaming.tables.reader import TableReader
from streaming.verify.broker_answers import BrokerAnswers
from streaming.verify.table_answers import TableAnswers
from streaming.verify.verify import verify

_POLL_S = 0.2
_PATIENCE_S = 600.0
"""Timeout of each stage; a busy machine must only slow the demo down."""


@contextmanager
def run_demo(
    *,
    seconds: float = math.inf,
    folder: Path | str | None = None,
    dashboard: bool = True,
    kafka_version: str | None = None,
) -> Iterator[DemoReport]:
    """Run the demo until its report is read; the end of the block stops everything.

    Args:
        seconds: the minimum duration of the traffic. It continues until each group has shown its
            behaviour. If infinite, Ctrl-C ends the traffic.
        folder: a new or empty folder for broker data, tables and checkpoint, which is kept. The
            default is a temporary folder that is removed.
        dashboard: whether to serve the page while the traffic runs.
        kafka_version: the version of the broker.

    Raises:
        ConfigurationError: Java or the jars are missing, or `folder` is not empty.
        TimeoutError: the query or a group did not start in time.
    """
    with ExitStack() as running:
        work = enter_work_folder(running, folder)
        try:
            yield _run(running, work, seconds, dashboard, kafka_version)
        finally:
            write_note("stopping the query, the groups and the broker ...")


def enter_work_folder(running: ExitStack, folder: Path | str | None = None) -> Path:
    """The folder of a demo; by default a temporary one, which the end of `running` removes.

    Raises:
        ConfigurationError: `folder` is not empty.
    """
    if folder is None:
        temporary = tempfile.TemporaryDirectory(
            prefix="coordinator-state-demo-", ignore_cleanup_errors=True
        )
        work = Path(running.enter_context(temporary))
    else:
        work = Path(folder).absolute()
        if work.exists() and (not work.is_dir() or any(work.iterdir())):
            raise ConfigurationError(f"{folder} is not an empty folder: name a new or empty one")
    until = "" if folder is not None else " (`demo` deletes them at its end)"
    write_note(f"the tables will be in {work / 'tables'}{until}")
    return work


def serve_page(running: ExitStack, tables: str) -> None:
    """Serve the page until the end of `running`, and open it if there is a display."""
    address = running.enter_context(serving_page({"demo": tables}))
    write_note(f"the page is at {address}")
    open_browser(address)


def _run(
    running: ExitStack, work: Path, seconds: float, dashboard: bool, kafka_version: str | None
) -> DemoReport:
    tables = str(work / "tables")
    with ProgressDisplay(is_terminal=is_live()) as display, compiling_loops():
        write_note("starting the broker; the first time its jars are fetched ...")
        enter_stage("starting the broker")
        broker = EmbeddedBroker(kafka_version, folder=work / "broker", properties=BROKER_PROPERTIES)
        servers = running.enter_context(broker).bootstrap_servers
        broker.create_offsets_topic()
        create_topics(Clients(servers))
        write_note(f"Kafka {broker.version} at {servers}; starting Spark ...")
        traffic = running.enter_context(closing(Traffic(servers)))
        query = running.enter_context(closing(_Query(servers, work, display)))
        query.start()
        if dashboard:
            serve_page(running, tables)
        _let_run(traffic, query, seconds)
        write_note("stopping the traffic; one transaction stays ongoing ...")
        traffic.stop(_PATIENCE_S)
        write_note("comparing the tables with the broker ...")
        return _compare(servers, tables, query)


def _let_run(traffic: Traffic, query: _Query, seconds: float) -> None:
    """Run the traffic for `seconds`, or longer until every group has shown its behaviour."""
    started_at = time.monotonic()
    try:
        duration = "until Ctrl-C" if math.isinf(seconds) else f"for {seconds:g} s"
        write_note(f"traffic of {len(DEMO_GROUPS)} groups {duration} ...")
        traffic.start()
        has_shown_all = False
        while True:
            missing = traffic.not_demonstrated
            if not query.has_applied.is_set():
                missing = ["the query", *missing]
            if not missing and not has_shown_all:
                has_shown_all = True
                write_note("every group has shown its behaviour; the traffic continues ...")
            over_s = time.monotonic() - started_at - seconds
            if not missing and over_s >= 0:
                return
            if over_s > _PATIENCE_S:
                raise TimeoutError(f"no activity in time from: {', '.join(missing)}")
            query.wait(_POLL_S)
    except KeyboardInterrupt:
        if not math.isinf(seconds):
            raise


def _compare(servers: str, tables: str, query: _Query) -> DemoReport:
    def snapshot() -> TableAnswers:
        query.wait(0)
        return TableAnswers(TableReader(tables))

    with BrokerAnswers(servers) as broker:
        verification = verify(broker, snapshot, timeout_s=_PATIENCE_S)
        return read_report(broker, TableReader(tables), verification)


class _Query:
    """The query with its Spark session, in a thread.

    In the main thread Spark would replace the handler of Ctrl-C.
    """

    def __init__(self, bootstrap_servers: str, work: Path, on_progress: OnProgress) -> None:
        self.has_applied = threading.Event()
        self._settings = RunSettings(
            bootstrap_servers=bootstrap_servers,
            tables=str(work / "tables"),
            checkpoint=str(work / "checkpoint"),
        )
        self._warehouse = work / "spark-warehouse"
        self._on_progress = on_progress
        self._has_spark = threading.Event()
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name="query", daemon=True)
        # Not the thread's join() and is_alive(): if Ctrl-C interrupts a join, CPython up to 3.12
        # marks the thread as ended although it still runs.
        self._end: Future[None] = Future()

    def start(self) -> None:
        """Start the query, and return when Spark has started."""
        self._thread.start()
        deadline = time.monotonic() + _PATIENCE_S
        while not self._has_spark.is_set():
            self.wait(_POLL_S)
            if time.monotonic() > deadline:
                raise TimeoutError(f"Spark did not start within {_PATIENCE_S:.0f} s")

    def wait(self, timeout_s: float) -> None:
        """Wait while the query runs; raise if it ends."""
        wait([self._end], timeout_s)
        if self._end.done():
            self._end.result()
            raise RuntimeError("the query ended unexpectedly")

    def close(self) -> None:
        """Finish the current micro-batch, and stop the query and Spark."""
        self._stop_requested.set()
        if self._thread.ident is not None:
            wait([self._end])

    def _run(self) -> None:
        try:
            session = build_session(master=self._settings.master, warehouse=self._warehouse)
            self._has_spark.set()
            try:
                if not self._stop_requested.is_set():
                    run_query(
                        self._settings,
                        on_progress=self._take_progress,
                        stop=self._stop_requested,
                        session=session,
                    )
            finally:
                session.stop()
        except BaseException as error:  # noqa: BLE001 - `wait` raises it
            self._end.set_exception(error)
        else:
            self._end.set_result(None)

    def _take_progress(self, event: ProgressEvent) -> None:
        self.has_applied.set()
        self._on_progress(event)
