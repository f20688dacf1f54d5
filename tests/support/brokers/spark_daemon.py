"""Long-running programs of Spark, from pyspark's own scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from streaming.jvm.java import find_java

SPARK_BIN = Path(pyspark.__file__).parent / "bin"
_LIMIT_S = 60
_LOG = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
logger.told.level = info
logger.told.name = """


def configure(folder: Path, logger: str) -> None:
    """Make a configuration folder whose programs log errors, and what one logger tells."""
    folder.mkdir(parents=True)
    (folder / "log4j2.properties").write_text(_LOG + logger)


def environment_of(configuration: Path) -> dict[str, str]:
    """For programs that are to use a configuration folder."""
    return {
        **os.environ,
        "JAVA_HOME": str(find_java().parent.parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(configuration),
    }


@contextmanager
def daemon(
    command: Sequence[str], up: str, *, env: Mapping[str, str], folder: Path
) -> Iterator[int]:
    """Run a program while the block does, which begins once a line of its log has the text `up`.

    Gives its process group, which its child processes are in, too.
    """
    with subprocess.Popen(
        command,
        env=env,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            assert process.stderr is not None
            said = []
            for line in process.stderr:
                said.append(line)
                if up in line:
                    break
            else:
                raise AssertionError("".join(said))
            yield process.pid
        finally:
            process.terminate()
            process.communicate(timeout=_LIMIT_S)
