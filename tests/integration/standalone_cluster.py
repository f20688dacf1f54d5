"""A Spark cluster of one master and two workers on this machine, from pyspark's own scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from streaming.broker.configuration import HOST, free_port
from streaming.java import find_java

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_WORKERS = 2
_LOG = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
"""


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
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (conf / "log4j2.properties").write_text(_LOG)
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().parent.parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": HOST,
    }
    port = free_port()
    cluster = StandaloneCluster(
        f"spark://{HOST}:{port}",
        tuple(folder / f"worker-{number}" for number in range(_WORKERS)),
        environment,
    )
    with ExitStack() as running:
        master = ("org.apache.spark.deploy.master.Master", "--port", str(port))
        running.enter_context(_daemon(master, "I have been elected leader", environment, folder))
        for worker_folder in cluster.worker_folders:
            worker = (
                *("org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(worker_folder), cluster.master),
            )
            running.enter_context(
                _daemon(worker, "Successfully registered with master", environment, folder)
            )
        yield cluster


@contextmanager
def _daemon(
    arguments: tuple[str, ...], up: str, environment: dict[str, str], folder: Path
) -> Iterator[None]:
    name, *rest = arguments
    command = [str(_SPARK_CLASS), name, "--host", HOST, "--webui-port", "0", *rest]
    with (folder / f"{len(list(folder.glob('*.log')))}.log").open("w+") as log:
        process = subprocess.Popen(
            command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            assert process.stderr is not None
            for line in process.stderr:
                log.write(line.decode(errors="replace"))
                if up in line.decode(errors="replace"):
                    break
            else:
                log.seek(0)
                raise AssertionError(log.read())
            yield
        finally:
            process.terminate()
            process.communicate(timeout=60)
