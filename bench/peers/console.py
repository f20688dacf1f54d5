"""Kafka's own tools: the console consumer with the formatter for offsets, and the group command."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping
from threading import Lock, Thread
from typing import IO, ClassVar

from bench.peers.answers import FormatterFold, of_describe
from bench.peers.tool import NoAnswer, Tool
from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from coordinator_state.replay.offsets import OffsetKey
from streaming.jvm.jars import kafka_jars
from streaming.jvm.java import find_java

_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_FORMATTER = "org.apache.kafka.tools.consumer.OffsetsMessageFormatter"
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_PIECE_BYTES = 1 << 16


def kafka_tool(program: str, *arguments: str) -> list[str]:
    """The command line of a tool of Kafka, with the heap of Kafka's own scripts (256 MB)."""
    class_path = ":".join(str(jar) for jar in kafka_jars() if "log4j-" not in jar.name)
    return [str(find_java()), "-Xmx256M", "-cp", class_path, program, *arguments]


class ConsoleConsumer(Tool):
    """The console consumer; the bench keeps the last value of each key that it prints."""

    name = "console consumer, last value"
    settings = "OffsetsMessageFormatter, --from-beginning"
    isolation: ClassVar[str] = "read_uncommitted"

    def start(self) -> None:
        """Start it, and a thread that reads its output."""
        self._fold = FormatterFold()
        self._lock = Lock()
        process = self.launch(
            kafka_tool(
                _CONSUMER,
                *("--bootstrap-server", self.servers, "--topic", OFFSETS_TOPIC),
                *("--from-beginning", "--formatter", _FORMATTER),
                *("--isolation-level", self.isolation),
            ),
            os.environ,
            subprocess.PIPE,
        )
        assert process.stdout is not None
        Thread(target=self._take, args=(process.stdout,), daemon=True).start()

    def offsets(self) -> Mapping[OffsetKey, int]:
        """The last value of each key so far."""
        with self._lock:
            if not self._fold.offsets:
                raise NoAnswer("nothing printed yet")
            return dict(self._fold.offsets)

    def _take(self, printed: IO[bytes]) -> None:
        while piece := os.read(printed.fileno(), _PIECE_BYTES):
            with self._lock:
                self._fold.add(piece.decode())


class CommittedConsoleConsumer(ConsoleConsumer):
    """The same without records of aborted and open transactions."""

    name = "console consumer, read_committed"
    settings = "the same with --isolation-level read_committed"
    isolation = "read_committed"


class GroupCommand(Tool):
    """`kafka-consumer-groups.sh --describe --all-groups`: a new process for each answer."""

    name = "kafka-consumer-groups.sh"
    settings = "--describe --all-groups, a process for each answer"

    def start(self) -> None:
        """Nothing runs between two answers."""

    def offsets(self) -> Mapping[OffsetKey, int]:
        """The output of a new process."""
        before_s = _children_cpu_s()
        process = self.launch(
            kafka_tool(_GROUPS, "--bootstrap-server", self.servers, "--describe", "--all-groups"),
            os.environ,
            subprocess.PIPE,
        )
        printed, _ = process.communicate()
        self.processes.remove(process)
        self.ended_cpu_s = _children_cpu_s() - before_s
        if process.returncode:
            raise NoAnswer(f"exit status {process.returncode}")
        return of_describe(printed.decode())


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
