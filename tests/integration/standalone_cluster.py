"""A Spark cluster of one master and two workers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from streaming.broker.configuration import HOST, free_port
from tests.integration.spark_daemon import SPARK_BIN, configure, daemon, environment_of

_WORKERS = 2


@dataclass(frozen=True)
class StandaloneCluster:
    """Its address, the folders of its workers, and the environment of programs that use it."""

    master: str
    worker_folders: tuple[Path, ...]
    environment: dict[str, str]

    def files_of_executors(self, pattern: str) -> list[Path]:
        """Files that executors have, worker by worker."""
        return [
            file for folder in self.worker_folders for file in folder.glob(f"app-*/*/{pattern}")
        ]


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[StandaloneCluster]:
    """Start it, and end every process of it."""
    configure(folder / "conf", "org.apache.spark.deploy")
    environment = {**environment_of(folder / "conf"), "SPARK_LOCAL_IP": HOST}
    port = free_port()
    cluster = StandaloneCluster(
        f"spark://{HOST}:{port}",
        tuple(folder / f"worker-{number}" for number in range(_WORKERS)),
        environment,
    )

    def start(name: str, up: str, *arguments: str) -> None:
        command = [
            *(str(SPARK_BIN / "spark-class"), f"org.apache.spark.deploy.{name}"),
            *("--host", HOST, "--webui-port", "0", *arguments),
        ]
        running.enter_context(daemon(command, up, env=environment, folder=folder))

    with ExitStack() as running:
        start("master.Master", "I have been elected leader", "--port", str(port))
        for worker_folder in cluster.worker_folders:
            start(
                *("worker.Worker", "Successfully registered with master"),
                *("--cores", "1", "--memory", "1g", "--work-dir", str(worker_folder)),
                cluster.master,
            )
        yield cluster
