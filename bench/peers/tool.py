"""A tool under test: how it is started, and how its answer is read."""

from __future__ import annotations

import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar
from urllib.parse import urlsplit

from coordinator_state.replay.offsets import OffsetKey

HOST = "127.0.0.1"
_STOP_TIMEOUT_S = 30
_ANSWER_TIMEOUT_S = 30


class NoAnswer(Exception):
    """The tool does not answer yet."""


class Tool(ABC):
    """A tool that runs during a `with` block; its files are in a new folder.

    Raises `NoAnswer` as long as it does not answer.
    """

    name: ClassVar[str]
    settings: ClassVar[str]
    """Settings other than the defaults, for the report."""

    def __init__(self, servers: str, folder: Path, groups: Sequence[str]) -> None:
        self.servers = servers
        self.folder = folder
        self.groups = groups
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ended_cpu_s = 0.0
        """Processor time of processes that have ended."""
        self._stack = ExitStack()

    def __enter__(self) -> Tool:
        self.folder.mkdir(parents=True)
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._stack.close()

    @property
    def pids(self) -> list[int]:
        """The processes that were started."""
        return [process.pid for process in self.processes]

    def require_alive(self) -> None:
        """Raise where a process has ended."""
        for process in self.processes:
            if process.poll() is not None:
                raise RuntimeError(
                    f"{self.name} ended with status {process.returncode}; see {self.folder}"
                )

    @abstractmethod
    def start(self) -> None:
        """Start the processes."""

    @abstractmethod
    def offsets(self) -> Mapping[OffsetKey, int]:
        """Every committed offset by the tool's answer."""

    def offsets_of(self, keys: Iterable[OffsetKey]) -> Mapping[OffsetKey, int]:
        """At least the offsets of these keys, by the cheapest question that answers it."""
        del keys
        return self.offsets()

    def launch(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        stdout: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process; its output is appended to `log` in the folder."""
        log = self._stack.enter_context((self.folder / "log").open("ab"))
        process = subprocess.Popen(
            command,
            cwd=self.folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
        )
        self.processes.append(process)
        return process


def get(address: str) -> str:
    """The body of an HTTP answer.

    Raises:
        NoAnswer: nobody listens, or the status is not 200.
    """
    parts = urlsplit(address)
    with closing(HTTPConnection(parts.netloc, timeout=_ANSWER_TIMEOUT_S)) as connection:
        try:
            connection.request("GET", parts.path)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, HTTPException) as error:
            raise NoAnswer(str(error)) from error
    if answer.status != 200:
        raise NoAnswer(f"{address}: status {answer.status}")
    return body.decode()


def free_port() -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as listening:
        listening.bind((HOST, 0))
        port: int = listening.getsockname()[1]
    return port
