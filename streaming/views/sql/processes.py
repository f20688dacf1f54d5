"""Runs queries of users in separate processes.

DuckDB computes inside the process that calls it. Parts of a query can be neither interrupted nor
limited in memory: binding it, one long function call, and computing the views that it uses. The
processes of the dashboard and of `alert run` therefore run no user queries themselves.
"""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from signal import Signals
from threading import Timer
from typing import IO, BinaryIO, Final, cast

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.views.sql.question import Question
from streaming.views.sql.slots import Slots
from streaming.views.sql.worker import ANSWERED, READY, REFUSED, UNREADABLE

_PROGRAM: Final = "from streaming.views.sql.worker import main; main()"
_STARTS_WITHIN_S: Final = 60.0
_INHERITED: Final = frozenset({"HOME", "PATH", "TMPDIR", "LD_LIBRARY_PATH"})
_INHERITED_FOR_STORES: Final = frozenset(
    {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_STORE_PREFIXES: Final = ("AWS_", "AZURE_", "GOOGLE_", "IDENTITY_", "MSI_")
_SETTINGS: Final = {
    # These allocators reserve no more address space than they use, and return it.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    # The stack of each thread counts as address space.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "2",
    "PYTHONUTF8": "1",
}


class QueryTooSlow(ConfigurationError):
    """A query exceeded its time limit."""


class SqlProcesses:
    """Processes that answer queries; one spare process is already started.

    Args:
        slots: limits the number of concurrent queries.
        tables: the tables folders of the queries. If one of them is in a store, processes inherit
            the environment variables for its login. They inherit no other secrets.
        is_reused: whether a process answers further queries. By default it answers one query and
            is replaced. Only for queries of one author: a query may see data of an earlier one.
    """

    def __init__(self, slots: Slots, tables: Collection[str], *, is_reused: bool = False) -> None:
        self._slots = slots
        self._environment = _environment(tables)
        self._is_reused = is_reused
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._started: set[_Process] = set()
        self.close = weakref.finalize(self, _end_all, self._lock, self._started, self._idle)
        """Ends every process, also those with a running query."""

    def warm(self) -> None:
        """Start a spare process if there is none: a query is expected."""
        with self._lock:
            if not self._idle and self.close.alive:
                self._idle.append(self._new())

    def answer(self, question: Question) -> BinaryIO:
        """The answer to a question in its form; the caller closes the file.

        Raises:
            Busy: no slot is free.
            TablesUnavailable: the tables cannot be read.
            QueryTooSlow: the query exceeds its time limit.
            ConfigurationError: the query is not valid, is not a SELECT, fails, or exceeds another
                limit.
        """
        with self._slots.taken():
            process = self._idle_or_new()
            try:
                return process.answer(question, keep=self._is_reused)
            finally:
                self._put_back(process)

    def _idle_or_new(self) -> _Process:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_running:
                    return process
                self._end(process)
            return self._new()

    def _put_back(self, process: _Process) -> None:
        with self._lock:
            # A process that was just killed may still count as running.
            if self._is_reused and self.close.alive and process.is_running:
                self._idle.append(process)
            else:
                self._end(process)
        self.warm()

    def _new(self) -> _Process:
        process = _Process(self._environment)
        self._started.add(process)
        if not self.close.alive:
            process.kill()
        return process

    def _end(self, process: _Process) -> None:
        process.end()
        self._started.discard(process)


class _Process:
    """A process of `streaming.views.sql.worker`."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._is_ready = self._has_given_file = False
        try:
            self._file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - of `end`
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(self._file.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=[self._file.fileno()],
                env=environment,
                # Python imports modules from its working directory.
                cwd="/",
                # Ctrl-C in the terminal must reach only the parent.
                start_new_session=True,
            )
        except OSError as error:
            raise ConfigurationError(
                f"cannot start a process for the query: {error.strerror or error}"
            ) from error
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._stdout = cast("IO[bytes]", self._process.stdout)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def answer(self, question: Question, *, keep: bool) -> BinaryIO:
        """The answer: the file of the process, or a copy of it if more questions follow (`keep`).

        Raises:
            TablesUnavailable: the tables cannot be read.
            QueryTooSlow: the query exceeds its time limit.
            ConfigurationError: the query is refused, or the process ended.
        """
        if not self._is_ready:
            # The start of the process does not count as time of the query.
            self._is_ready = self._reply(b"", _STARTS_WITHIN_S) == READY
        limits = question.limits
        began = time.monotonic()
        verdict = self._reply(pickle.dumps(question, pickle.HIGHEST_PROTOCOL), limits.within_s)
        took_s = time.monotonic() - began
        self._file.seek(0)
        if verdict == ANSWERED:
            self._has_given_file = not keep
            return io.BytesIO(self._file.read()) if keep else self._file
        if verdict in {REFUSED, UNREADABLE}:
            refusal = self._file.read().decode()
            raise (ConfigurationError if verdict == REFUSED else TablesUnavailable)(refusal)
        end = self._end_reason()
        if took_s >= limits.within_s:
            raise QueryTooSlow(f"the query took more than {limits.within_s:g} s")
        raise ConfigurationError(
            f"the query needs more than {limits.memory_bytes >> 20:,} MB of memory, or its process "
            f"failed ({end})"
        )

    def kill(self) -> None:
        """Kill the process; a thread that waits for its answer gets an error."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process and close its pipes; an answer that it gave can still be read."""
        self.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout):
            # Unsent input does not matter: the process has ended.
            with suppress(BrokenPipeError):
                pipe.close()
        if not self._has_given_file:
            self._file.close()

    def _reply(self, message: bytes, within_s: float) -> bytes:
        """Send a message and return the next line; empty if the process ends or times out."""
        timeout = Timer(within_s, self._process.kill)
        timeout.daemon = True
        timeout.start()
        try:
            self._stdin.write(message)
            self._stdin.flush()
            return self._stdout.readline()
        except BrokenPipeError:
            return b""
        finally:
            timeout.cancel()

    def _end_reason(self) -> str:
        """The signal or exit status by which the process ended."""
        code = self._process.wait()
        return Signals(-code).name if code < 0 else f"exit status {code}"


def _end_all(lock: threading.Lock, started: set[_Process], idle: list[_Process]) -> None:
    with lock:
        while idle:
            idle.pop().end()
        for process in started:
            process.kill()


def _environment(tables: Collection[str]) -> dict[str, str]:
    """The environment of a process: no secrets, except those for the login to a store."""
    is_in_store = any("://" in folder for folder in tables)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _INHERITED
        or (
            is_in_store
            and (name.upper() in _INHERITED_FOR_STORES or name.startswith(_STORE_PREFIXES))
        )
    }
    modules = (str(Path(folder).absolute()) for folder in sys.path)
    return {**inherited, **_SETTINGS, "PYTHONPATH": os.pathsep.join(modules)}
