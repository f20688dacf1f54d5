"""A real Kafka broker on this machine, for the demo, the tests and the benchmarks.

One JVM is both broker and controller (KRaft combined mode). It has PLAINTEXT listeners on
127.0.0.1 only, and one replica of every internal topic. Its data, configuration and log are in one
folder, so the broker can be stopped or killed, and restarted on the same data.

The JVM never outlives this process, even if this process is killed.
"""

from __future__ import annotations

import logging
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.errors import ConfigurationError
from streaming.jvm.jars import KAFKA_VERSION, kafka_jars
from streaming.jvm.java import find_java
from streaming.local.broker.configuration import (
    HOST,
    ClusterNode,
    broker_command,
    broker_properties,
    format_command,
    free_port,
    is_free,
    write_configuration,
)
from streaming.local.broker.load_summary import LoadSummary, parse_load_summaries
from streaming.local.broker.supervised_process import SupervisedProcess

logger = logging.getLogger(__name__)

_START_TIMEOUT_S = 120.0
_START_ATTEMPTS = 3
_STOP_TIMEOUT_S = 30.0
_LOAD_TIMEOUT_S = 120.0
_POLL_S = 0.05
_STARTED = "Kafka Server started"
_BIND_FAILURES = ("Address already in use", "Socket server failed to bind", "BindException")
_LAST_LINES = 25
_LOG_PARTITIONS = f"{OFFSETS_TOPIC}-[0-9]*"

# Files that describe the log partitions. They would contradict a replaced log.
_LOG_DIR_CHECKPOINTS = (
    ".kafka_cleanshutdown",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)


class BrokerError(Exception):
    """The embedded broker did not start, or is in the wrong state for the call."""


class EmbeddedBroker:
    """A broker in its own JVM; as a context manager it runs during the `with` block.

    Args:
        version: the Kafka version, `KAFKA_VERSION` by default; jars that are not cached are
            downloaded.
        folder: the folder of all files of the broker; the folder of an earlier broker can be
            reused. The default is a temporary folder that `close` removes.
        port: the port to listen on; the default is a free port, which stays the same at restarts.
        properties: broker properties that extend or override the defaults of this class.
        node: the node of a larger cluster; the default is a cluster of one node.
        features: levels of Kafka features of a new folder, such as `share.version`; the defaults
            are those of the Kafka version.
    """

    def __init__(
        self,
        version: str | None = None,
        folder: Path | str | None = None,
        port: int | None = None,
        properties: Mapping[str, object] | None = None,
        node: ClusterNode | None = None,
        features: Mapping[str, int] | None = None,
    ) -> None:
        self.version = version or KAFKA_VERSION
        self._temporary = (
            tempfile.TemporaryDirectory(prefix="kafka-broker-", ignore_cleanup_errors=True)
            if folder is None
            else None
        )
        self.folder = Path(self._temporary.name if self._temporary else folder or "").absolute()
        self.log_dir = self.folder / "data"
        self.log_file = self.folder / "broker.log"
        self._port = port
        self._node = node
        self._properties = dict(properties or {})
        self._features = dict(features or {})
        self._jvm: SupervisedProcess | None = None
        self._log_position = 0

    def __enter__(self) -> EmbeddedBroker:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as host:port."""
        if self._port is None:
            raise BrokerError("the broker has no port before its first start: call start()")
        return f"{HOST}:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether the JVM is running."""
        return self._jvm is not None and self._jvm.is_running

    def start(self, properties: Mapping[str, object] | None = None) -> None:
        """Start the broker and return when it accepts requests.

        Args:
            properties: broker properties for this start only; they override all others.

        Raises:
            BrokerError: the broker exited or was not ready in time; the message includes the last
                lines of its log.
            ConfigurationError: the given port is in use, or Java or the jars are missing.
        """
        if self.is_running:
            raise BrokerError("the broker is already running")
        java, jars = find_java(), kafka_jars(self.version)
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._port is not None and not is_free(self._port):
            raise ConfigurationError(f"port {self._port} on {HOST} is in use: choose another port")
        started_at = time.monotonic()
        for _ in range(_START_ATTEMPTS):
            port = self._port or free_port()
            self._launch(java, jars, port, properties or {})
            if self._wait_until_started():
                self._port = port
                duration_s = time.monotonic() - started_at
                logger.info(
                    "Kafka %(version)s started on port %(port)s in %(duration_s).1f s",
                    {"version": self.version, "port": port, "duration_s": duration_s},
                )
                return
            self.kill()
            if not any(sign in self.log_since_start() for sign in _BIND_FAILURES):
                break
            logger.info("another process took port %(port)s or the controller's", {"port": port})
        raise BrokerError(f"the broker did not start: {self.log_end()}")

    def stop(self) -> None:
        """Shut the broker down cleanly (SIGTERM); after a timeout, kill it (SIGKILL)."""
        if self._jvm is None:
            return
        if self._jvm.stop(_STOP_TIMEOUT_S):
            self._jvm = None
        else:
            logger.warning(
                "the broker did not stop within %(timeout_s).0f s: killing it",
                {"timeout_s": _STOP_TIMEOUT_S},
            )
            self.kill()

    def kill(self) -> None:
        """Kill the broker like a crash (SIGKILL), and return when the process has ended."""
        if self._jvm is not None:
            self._jvm.kill()
            self._jvm = None

    def pause(self) -> None:
        """Suspend the broker (SIGSTOP): it stays connected and does not answer."""
        if self._jvm is not None:
            self._jvm.pause()

    def resume(self) -> None:
        """Resume a suspended broker (SIGCONT)."""
        if self._jvm is not None:
            self._jvm.resume()

    def restart(self) -> None:
        """Stop the broker and start it with the same folder and port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the broker and remove its folder if it is temporary."""
        try:
            self.stop()
        finally:
            self.kill()
            if self._temporary is not None:
                self._temporary.cleanup()

    def load_summaries(self) -> list[LoadSummary]:
        """Return the log partitions that the broker has loaded since its start, from its log."""
        return parse_load_summaries(self.log_since_start())

    def wait_until_loaded(self, timeout_s: float = _LOAD_TIMEOUT_S) -> list[LoadSummary]:
        """Return the load summaries when every log partition on disk has one.

        Until then the broker answers COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR.

        Raises:
            BrokerError: the load took longer than `timeout_s`, or the broker exited.
        """
        numbers = [path.name.rpartition("-")[2] for path in self.log_dir.glob(_LOG_PARTITIONS)]
        # Folders of a deleted topic keep the suffix "delete" for a while.
        awaited = {int(number) for number in numbers if number.isdecimal()}
        deadline = time.monotonic() + timeout_s
        while True:
            summaries = self.load_summaries()
            missing = awaited - {summary.log_partition for summary in summaries}
            if not missing:
                return summaries
            if not self.is_running or time.monotonic() > deadline:
                raise BrokerError(
                    f"log partitions {sorted(missing)} were not loaded: {self.log_end()}"
                )
            time.sleep(_POLL_S)

    def create_offsets_topic(self, timeout_s: float = _LOAD_TIMEOUT_S) -> None:
        """Make the broker create `__consumer_offsets`, as the first consumer group does.

        A node of a larger cluster leads only some log partitions: then this does not wait for
        loads.

        Raises:
            BrokerError: the topic was not created and loaded within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        try:
            while not self._answers_about_groups(admin):
                if not self.is_running or time.monotonic() > deadline:
                    raise BrokerError(f"{OFFSETS_TOPIC} was not created: {self.log_end()}")
                time.sleep(_POLL_S)
        finally:
            admin.close()
        if self._node is None:
            self.wait_until_loaded(timeout_s)

    @staticmethod
    def _answers_about_groups(admin: KafkaAdminClient) -> bool:
        try:
            admin.list_group_offsets("embedded-broker")
        except KafkaError:
            return False
        return True

    def replace_log(
        self,
        log_partition: int,
        *segments: bytes,
        log_start_offset: int = 0,
        topic: str = OFFSETS_TOPIC,
    ) -> None:
        """Replace the log of a log partition of a stopped broker by `segments` (record batches).

        The broker treats it as a log after a crash: it recovers the log, rebuilds indexes and
        producer state, and loads it as usual. The topic must exist.

        Args:
            log_partition: a partition of `topic`.
            segments: record batches in the order of their offsets, in one or more segments; the
                last one is the active segment.
            log_start_offset: the first offset of the log; no batch may begin below it.
            topic: the topic of the log.

        Raises:
            BrokerError: the broker is running, or the log partition does not exist.
        """
        folder = self._log_folder(log_partition, topic)
        for file in folder.iterdir():
            # partition.metadata holds the topic id. Without it the broker ignores the log.
            if file.name != "partition.metadata":
                file.unlink()
        for name in _LOG_DIR_CHECKPOINTS:
            (self.log_dir / name).unlink(missing_ok=True)
        base_offset = log_start_offset
        for number, segment in enumerate(segments or (b"",)):
            if number:
                base_offset = int.from_bytes(segment[:8], "big")
            (folder / f"{base_offset:020d}.log").write_bytes(segment)

    def load_logs(self, logs: Iterable[tuple[int, bytes]]) -> None:
        """Restart the broker with replaced logs of these log partitions, which it loads.

        Raises:
            BrokerError: a log partition does not exist, or the broker does not start.
        """
        self.stop()
        for log_partition, log in logs:
            self.replace_log(log_partition, log)
        self.start()

    def read_log(self, log_partition: int) -> bytes:
        """Read the record batches in all segments of a log partition of a stopped broker.

        Raises:
            BrokerError: the broker is running, or the log partition does not exist.
        """
        folder = self._log_folder(log_partition)
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))

    def _log_folder(self, log_partition: int, topic: str = OFFSETS_TOPIC) -> Path:
        folder = self.log_dir / f"{topic}-{log_partition}"
        if self.is_running:
            raise BrokerError("the broker is running: stop it before reading or replacing a log")
        if not folder.is_dir():
            raise BrokerError(f"{folder.name} does not exist in {self.log_dir}")
        return folder

    def _launch(
        self, java: Path, jars: list[Path], port: int, overrides: Mapping[str, object]
    ) -> None:
        """Write the configuration, format the storage of a new folder, and start the JVM."""
        properties = broker_properties(
            port=port,
            controller_port=(
                free_port(exclude=[port]) if self._node is None else self._node.controller_port
            ),
            log_dir=self.log_dir,
            overrides={**self._properties, **overrides},
            node=self._node,
        )
        write_configuration(self.folder, properties)
        with self.log_file.open("ab") as log:
            self._log_position = log.tell()
            if not (self.log_dir / "meta.properties").exists():
                formatted = subprocess.run(
                    format_command(java, jars, self.folder, self._node, self._features),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
                if formatted.returncode != 0:
                    raise BrokerError(f"cannot format the storage: {self.log_end()}")
        self._jvm = SupervisedProcess(
            broker_command(java, jars, self.folder, self._node),
            folder=self.folder,
            output=self.log_file,
        )

    def _wait_until_started(self) -> bool:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while self.is_running and time.monotonic() < deadline:
            if _STARTED in self.log_since_start():
                return True
            time.sleep(_POLL_S)
        return False

    def log_since_start(self) -> str:
        """Return the log of the broker since its last start."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_position)
            return log.read().decode(errors="replace")

    def log_end(self) -> str:
        """Return the last lines of the broker's log since its start, for an error message."""
        lines = self.log_since_start().splitlines()[-_LAST_LINES:]
        return "\n".join([f"the last lines of {self.log_file}:", *lines])
