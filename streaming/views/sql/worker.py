"""The process that answers queries from outside, within limits that the kernel enforces.

`streaming.views.sql.processes` starts it. A `Question` comes by stdin, pickled. The answer goes
into a file that the starter has open too, and one line by stdout says whether it is an answer or a
refusal. The starter kills a process that takes too long.

The process does not outlive its starter, whatever it is computing. When the starter dies, stdin
closes, and the kernel sends SIGIO, which ends the process. Where the kernel sends none (macOS),
SIGALRM ends the process shortly after the query's time is over.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import pickle
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from streaming.errors import ConfigurationError, TablesUnavailable, first_line
from streaming.views.query import answering, check, names_in
from streaming.views.snapshot import Snapshot
from streaming.views.sql.forms import FORMS, rows_at_once
from streaming.views.sql.question import Form, Question, SqlLimits

READY: Final = b"ready\n"
ANSWERED: Final = b"answered\n"
REFUSED: Final = b"refused\n"
UNREADABLE: Final = b"unreadable\n"
"""Refused, since the tables cannot be read."""

_THREADS: Final = 2
"""Of DuckDB and of Arrow: a query leaves other processors alone."""
_GRACE_S: Final = 2
"""The starter kills first."""
_UNCOUNTED_BYTES: Final = 128 << 20
"""Stacks and heaps of DuckDB's threads."""


class _Snapshots:
    """The snapshot of the last question: rules of one round ask for the same one."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None

    def of(self, question: Question) -> Snapshot:
        """The snapshot of a question, with the views that it asks for.

        Raises:
            TablesUnavailable: the tables cannot be read.
        """
        if question.place is None:
            raise ValueError("a question without a place has no answer")
        try:
            if self._last is None or self._last.place != question.place:
                self._last = question.place.open(question.views)
            for name in names_in(question.sql):
                self._last.queried(name)
        except ConfigurationError as error:
            raise TablesUnavailable(str(error)) from error
        return self._last

    def forget(self) -> None:
        """Give its memory back."""
        self._last = None


def main() -> None:
    """Answer questions until stdin ends; the first argument is the descriptor of the file."""
    answer_fd = int(sys.argv[1])
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    # Lines that libraries print are not for the starter.
    os.dup2(2, 1)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The kernel ends a query rather than the page, where memory is short.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    pa.set_cpu_count(_THREADS)
    snapshots = _Snapshots()
    stdout.write(READY)
    while True:
        try:
            question: Question = pickle.load(stdin)  # noqa: S301 - from the starter alone
        except EOFError:
            return
        with _limited(question.limits):
            verdict = _answer(question, answer_fd, snapshots)
        stdout.write(verdict)


def _answer(question: Question, answer_fd: int, snapshots: _Snapshots) -> bytes:
    """Write an answer or a refusal into the file; gives the verdict."""
    try:
        _rewind(answer_fd)
        with open(answer_fd, "wb", closefd=False) as file:
            _write(question, file, snapshots)
    except Exception as error:  # noqa: BLE001 - the starter gets every error
        if isinstance(error, MemoryError):
            snapshots.forget()
        _rewind(answer_fd)
        os.write(answer_fd, _refusal(error, question.limits).encode())
        return UNREADABLE if isinstance(error, TablesUnavailable) else REFUSED
    return ANSWERED


def _write(question: Question, file: BinaryIO, snapshots: _Snapshots) -> None:
    if question.form is Form.CHECKED:
        check(question.sql)
        return
    snapshot = snapshots.of(question)
    with answering(
        question.sql,
        snapshot,
        rows_at_once=rows_at_once(question.form),
        settings={"memory_limit": f"{_duckdb_bytes(question.limits)}B", "threads": _THREADS},
    ) as answer:
        FORMS[question.form](answer, file, question.limits.most_rows)


def _duckdb_bytes(limits: SqlLimits) -> int:
    """The limit of DuckDB itself, which refuses a query before the kernel refuses memory.

    DuckDB takes more address space than it counts, and where malloc fails some of its code crashes.
    """
    taken_bytes = (_address_space_bytes() or 0) - (_idle_bytes() or 0)
    return max(limits.memory_bytes - taken_bytes - _UNCOUNTED_BYTES, 0) // 2


def _refusal(error: Exception, limits: SqlLimits) -> str:
    """Why there is no answer, in one line."""
    told = first_line(error)
    if isinstance(error, ConfigurationError):
        return told
    if isinstance(error, MemoryError):
        return f"the query needs more than {limits.memory_bytes >> 20:,} MB of memory"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return f"the answer is larger than {limits.answer_bytes >> 20} MB"
    if isinstance(error, pa.ArrowException | OverflowError | TypeError | ValueError):
        return f"a value cannot be shown, make it text with ::VARCHAR: {told}"
    return f"{type(error).__name__}: {told}"


def _rewind(fd: int) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)


@contextmanager
def _limited(limits: SqlLimits) -> Iterator[None]:
    """The kernel ends the process, or refuses it memory and disk, where the block takes more."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = usage.ru_utime + usage.ru_stime + limits.within_s * _THREADS + _GRACE_S
    _set_limit(resource.RLIMIT_CPU, math.ceil(cpu_s))
    _set_limit(resource.RLIMIT_FSIZE, limits.answer_bytes)
    idle_bytes = _idle_bytes()
    if idle_bytes is not None:
        _set_limit(resource.RLIMIT_AS, idle_bytes + limits.memory_bytes)
    signal.setitimer(signal.ITIMER_REAL, limits.within_s + _GRACE_S)
    flags = fcntl.fcntl(0, fcntl.F_GETFL)
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, flags | os.O_ASYNC)
    try:
        yield
    finally:
        fcntl.fcntl(0, fcntl.F_SETFL, flags)
        signal.setitimer(signal.ITIMER_REAL, 0)


def _set_limit(which: int, value: int) -> None:
    _, most = resource.getrlimit(which)
    resource.setrlimit(which, (value if most == resource.RLIM_INFINITY else min(value, most), most))


@cache
def _idle_bytes() -> int | None:
    """Address space before the first query; None where the system does not tell."""
    return _address_space_bytes()


def _address_space_bytes() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return None
    return pages * resource.getpagesize()
