"""A Spark cluster of one master and some workers on this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from streaming.local.broker.configuration import HOST, free_port
from tests.support.brokers.spark_daemon import SPARK_BIN, configure, daemon, environment_of

# Two names of this machine: Spark runs no speculative twin of a task on the task's own host.
_HOSTS = (HOST, "localhost")


@dataclass(frozen=True)
class StandaloneCluster:
    """Its address, the folders of its workers, and the environment of programs that use it.

    `start_worker` starts one more, with so many cores. `kill_worker` kills one and its executors,
    by its place in `worker_folders`.
    """

    master: str
    worker_folders: list[Path]
    environment: dict[str, str]
    start_worker: Callable[[int], None]
    kill_worker: Callable[[int], None]

    def files_of_executors(self, pattern: str) -> list[Path]:
        """Files that executors have, worker by worker."""
        return [
            file for folder in self.worker_folders for file in folder.glob(f"app-*/*/{pattern}")
        ]


@contextmanager
def standalone_cluster(
    folder: Path, worker_cores: Sequence[int] = (1, 1)
) -> Iterator[StandaloneCluster]:
    """Start it with a worker of so many cores each, and end every process of it."""
    configure(folder / "conf", "org.apache.spark.deploy")
    environment = {**environment_of(folder / "conf"), "SPARK_LOCAL_IP": HOST}
    port = free_port()
    master = f"spark://{HOST}:{port}"
    worker_folders: list[Path] = []
    process_groups: list[int] = []

    def start(name: str, up: str, *arguments: str, host: str = HOST) -> int:
        command = [
            *(str(SPARK_BIN / "spark-class"), f"org.apache.spark.deploy.{name}"),
            *("--host", host, "--webui-port", "0", *arguments),
        ]
        return running.enter_context(daemon(command, up, env=environment, folder=folder))

    def start_worker(cores: int) -> None:
        worker_folders.append(folder / f"worker-{len(worker_folders)}")
        group = start(
            *("worker.Worker", "Successfully registered with master"),
            *("--cores", str(cores), "--memory", "1g", "--work-dir", str(worker_folders[-1])),
            master,
            host=_HOSTS[len(worker_folders) % 2],
        )
        process_groups.append(group)

    def kill_worker(number: int) -> None:
        os.killpg(process_groups[number], signal.SIGKILL)

    with ExitStack() as running:
        start("master.Master", "I have been elected leader", "--port", str(port))
        for cores in worker_cores:
            start_worker(cores)
        yield StandaloneCluster(master, worker_folders, environment, start_worker, kill_worker)
