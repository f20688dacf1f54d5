"""Queries from outside, each answered by a process of its own.

DuckDB computes within the process that asks it, and some of it can be neither interrupted nor held
to a limit of memory: binding a query, one long call of a function, the views it asks for. None of
that happens in a process that serves the page or sends alerts.
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
_KEPT: Final = frozenset({"HOME", "PATH", "TMPDIR", "LD_LIBRARY_PATH"})
_KEPT_FOR_STORES: Final = frozenset(
    {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
_STORE_PREFIXES: Final = ("AWS_", "AZURE_", "GOOGLE_", "IDENTITY_", "MSI_")
_OWN: Final = {
    # No more address space is taken than is used, and it is given back.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
    # Each thread has a stack, which counts.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKIO_WORKER_THREADS": "2",
    "PYTHONUTF8": "1",
}


class QueryTooSlow(ConfigurationError):
    """A query took more time than it may."""


class SqlProcesses:
    """Processes that answer queries, a spare one among them that has started already.

    Each answers one query and is replaced. With `is_reused` it goes on: that is for queries that
    one person wrote, who may see of one what he may see of the other.

    Args:
        slots: how many queries are answered at once.
        tables: the folders that questions are about. Processes inherit the variables that a login
            to a store needs where one of them is in a store, and no other secret.
        is_reused: see above.
    """

    def __init__(self, slots: Slots, tables: Collection[str], *, is_reused: bool = False) -> None:
        self._slots = slots
        self._environment = _environment(tables)
        self._is_reused = is_reused
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._started: set[_Process] = set()
        self.close = weakref.finalize(self, _end_all, self._lock, self._started, self._idle)
        """Ends every process, those that are answering too."""

    def warm(self) -> None:
        """Start a process, since a query is expected."""
        with self._lock:
            if not self._idle and self.close.alive:
                self._idle.append(self._new())

    def answer(self, question: Question) -> BinaryIO:
        """The answer to a question in its form; the file is the caller's.

        Raises:
            Busy: no place is free.
            TablesUnavailable: the tables cannot be read.
            QueryTooSlow: it takes more time than it may.
            ConfigurationError: the query cannot be understood, fails, is no SELECT, or needs more
                memory than it may.
        """
        with self._slots.taken():
            process = self._taken()
            try:
                return process.answer(question, keep=self._is_reused)
            finally:
                self._put_back(process)

    def _taken(self) -> _Process:
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
                # Python looks for modules where it starts.
                cwd="/",
                # Ctrl-C is for the starter.
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
        """Whether it can be asked."""
        return self._process.poll() is None

    def answer(self, question: Question, *, keep: bool) -> BinaryIO:
        """The answer, in the process's own file unless other questions follow.

        Raises:
            TablesUnavailable: the tables cannot be read.
            ConfigurationError: the query is refused, or the process was ended.
        """
        if not self._is_ready:
            # The time of the query begins here.
            self._is_ready = self._said(b"", _STARTS_WITHIN_S) == READY
        limits = question.limits
        began = time.monotonic()
        said = self._said(pickle.dumps(question, pickle.HIGHEST_PROTOCOL), limits.within_s)
        took_s = time.monotonic() - began
        self._file.seek(0)
        if said == ANSWERED:
            self._has_given_file = not keep
            return io.BytesIO(self._file.read()) if keep else self._file
        if said in {REFUSED, UNREADABLE}:
            refusal = self._file.read().decode()
            raise (ConfigurationError if said == REFUSED else TablesUnavailable)(refusal)
        ending = self._ending()
        if took_s >= limits.within_s:
            raise QueryTooSlow(f"the query took more than {limits.within_s:g} s")
        raise ConfigurationError(
            f"the query needs more than {limits.memory_bytes >> 20:,} MB of memory, or makes its "
            f"process fail ({ending})"
        )

    def kill(self) -> None:
        """End it; a thread that waits for its answer gets an error."""
        self._process.kill()

    def end(self) -> None:
        """End it and close its pipes; an answer that it gave can still be read."""
        self.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout):
            # It needs no more input.
            with suppress(BrokenPipeError):
                pipe.close()
        if not self._has_given_file:
            self._file.close()

    def _said(self, told: bytes, within_s: float) -> bytes:
        """The process's next line; empty where it ends, or is killed for taking longer."""
        late = Timer(within_s, self._process.kill)
        late.daemon = True
        late.start()
        try:
            self._stdin.write(told)
            self._stdin.flush()
            return self._stdout.readline()
        except BrokenPipeError:
            return b""
        finally:
            late.cancel()

    def _ending(self) -> str:
        """How the process ended."""
        code = self._process.wait()
        return Signals(-code).name if code < 0 else f"exit status {code}"


def _end_all(lock: threading.Lock, started: set[_Process], idle: list[_Process]) -> None:
    with lock:
        while idle:
            idle.pop().end()
        for process in started:
            process.kill()


def _environment(tables: Collection[str]) -> dict[str, str]:
    """The variables of a process: no secrets, but those that a store's login needs."""
    is_in_store = any("://" in folder for folder in tables)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT
        or (is_in_store and (name.upper() in _KEPT_FOR_STORES or name.startswith(_STORE_PREFIXES)))
    }
    modules = (str(Path(folder).absolute()) for folder in sys.path)
    return {**inherited, **_OWN, "PYTHONPATH": os.pathsep.join(modules)}
