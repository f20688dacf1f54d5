"""The process that runs queries of users, within limits that the kernel enforces.

`streaming.views.sql.processes` (the parent) starts it. A pickled `Question` arrives on stdin. The
worker writes the answer into a file that the parent has also open. One line on stdout says whether
the file has an answer or a refusal. The parent kills a worker that takes too long.

The worker does not outlive its parent. When the parent dies, stdin closes, and the kernel sends
SIGIO, which ends the worker. On systems that send no SIGIO (macOS), SIGALRM ends it shortly after
the time limit of the query.
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
"""Refused because the tables cannot be read."""

_THREADS: Final = 2
"""Threads of DuckDB and of Arrow: a query leaves the other processors free."""
_GRACE_S: Final = 2
"""Added to the time limit, so the parent kills the worker before the kernel does."""
_UNCOUNTED_BYTES: Final = 128 << 20
"""Stacks and heaps of DuckDB's threads, which DuckDB does not count."""


class _Snapshots:
    """Caches the last snapshot: the rules of one round use the same one."""

    def __init__(self) -> None:
        self._last: Snapshot | None = None

    def of(self, question: Question) -> Snapshot:
        """The snapshot of a question, with the views that its query names already computed.

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

    def clear(self) -> None:
        """Free the memory of the snapshot."""
        self._last = None


def main() -> None:
    """Answer questions until stdin closes; the first argument is the file descriptor of answers."""
    answer_fd = int(sys.argv[1])
    stdin, stdout = sys.stdin.buffer, os.fdopen(os.dup(1), "wb", buffering=0)
    # Libraries may print to stdout; the parent must not read that.
    os.dup2(2, 1)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # If memory runs out, the kernel kills the worker and not its parent.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    pa.set_cpu_count(_THREADS)
    snapshots = _Snapshots()
    stdout.write(READY)
    while True:
        try:
            question: Question = pickle.load(stdin)  # noqa: S301 - only the parent writes it
        except EOFError:
            return
        with _limited(question.limits):
            verdict = _answer(question, answer_fd, snapshots)
        stdout.write(verdict)


def _answer(question: Question, answer_fd: int, snapshots: _Snapshots) -> bytes:
    """Write the answer or a refusal into the file, and return the verdict."""
    try:
        _rewind(answer_fd)
        with open(answer_fd, "wb", closefd=False) as file:
            _write(question, file, snapshots)
    except Exception as error:  # noqa: BLE001 - the parent gets every error
        if isinstance(error, MemoryError):
            snapshots.clear()
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
    """The memory limit of DuckDB, which refuses a query before the kernel refuses memory.

    DuckDB uses more address space than it counts, and some of its code crashes if malloc fails.
    """
    used_bytes = (_address_space_bytes() or 0) - (_idle_bytes() or 0)
    return max(limits.memory_bytes - used_bytes - _UNCOUNTED_BYTES, 0) // 2


def _refusal(error: Exception, limits: SqlLimits) -> str:
    """The reason of a refusal in one line."""
    message = first_line(error)
    if isinstance(error, ConfigurationError):
        return message
    if isinstance(error, MemoryError):
        return f"the query needs more than {limits.memory_bytes >> 20:,} MB of memory"
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return f"the answer is larger than {limits.answer_bytes >> 20} MB"
    if isinstance(error, pa.ArrowException | OverflowError | TypeError | ValueError):
        return f"a value cannot be shown, cast it to text with ::VARCHAR: {message}"
    return f"{type(error).__name__}: {message}"


def _rewind(fd: int) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)


@contextmanager
def _limited(limits: SqlLimits) -> Iterator[None]:
    """Set the kernel's limits: a block that exceeds them gets an error, or the process ends."""
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
    """Address space before the first query; None if the system does not report it."""
    return _address_space_bytes()


def _address_space_bytes() -> int | None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return None
    return pages * resource.getpagesize()
