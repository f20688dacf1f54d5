"""Fetching jars from a Maven repository with Ivy, which is part of pyspark.

Ivy runs with this module's settings, in which Maven Central is the only resolver. The default
settings of Ivy and Spark also read `~/.m2` and `~/.ivy2`, and fail if these have a POM without its
jar.
"""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from streaming.errors import ConfigurationError
from streaming.jvm.java import find_java

# A repository may fail in the middle of a hundred requests; the retry resumes the first attempt.
_ATTEMPTS = 2
_CONNECTION_TIMEOUT_MS = 10_000
_READ_TIMEOUT_MS = 60_000
# Ivy's output for an unreachable repository, in contrast to a module that is not found.
_UNREACHABLE = ("Server access error", "not found. url=", "Connection", "timed out", "unreachable")
_RETRIEVED = "[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"

_SETTINGS = f"""\
<ivysettings>
  <settings defaultResolver="central"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="{_CONNECTION_TIMEOUT_MS}"
                        readTimeout="{_READ_TIMEOUT_MS}"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="central" m2compatible="true" timeoutConstraint="patience"/>
  </resolvers>
</ivysettings>
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """One Maven module; `transitive` adds the modules of its runtime scope."""

    organisation: str
    module: str
    revision: str
    transitive: bool = True


class IvyError(Exception):
    """Ivy could not fetch the jars; `reason` is None if Maven Central is unreachable."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


def retrieve(dependencies: Sequence[Dependency], work: Path, *, lock: int) -> dict[Path, str]:
    """Retrieve modules into the new folder `work/jars`; return the coordinates of each jar.

    Ivy inherits the descriptor `lock`. So if this process is killed, the folder stays locked until
    Ivy exits.

    Raises:
        ConfigurationError: Java or pyspark is missing.
        IvyError: a module could not be fetched.
    """
    java, ivy = find_java(), _ivy_jar()
    jars, retrieved = work / "jars", work / "retrieved"
    jars.mkdir(parents=True)
    (work / "ivysettings.xml").write_text(_SETTINGS)
    (work / "ivy.xml").write_text(_ivy_module(dependencies))
    command = [
        *(str(java), f"-Divy.default.ivy.user.dir={work}", "-jar", str(ivy)),
        *("-settings", str(work / "ivysettings.xml"), "-cache", str(work / "cache")),
        *("-ivy", str(work / "ivy.xml"), "-retrieve", f"{retrieved}/{_RETRIEVED}"),
    ]
    for _ in range(_ATTEMPTS):
        run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=(lock,),
            check=False,
        )
        if run.returncode == 0 or not _is_unreachable(run.stdout):
            break
    if run.returncode != 0:
        raise IvyError(_reason(run.stdout))
    return {
        jar.rename(jars / jar.name): ":".join(jar.relative_to(retrieved).parts[:-1])
        for jar in retrieved.glob("*/*/*/*.jar")
    }


def _ivy_jar() -> Path:
    """Find the Ivy jar inside pyspark without importing pyspark, which is slow."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for jar in sorted(Path(location).glob("jars/ivy-*.jar")):
            return jar
    raise ConfigurationError(
        "cannot fetch the jars: pyspark, which includes Ivy, is not installed: "
        "pip install 'coordinator-state[streaming]'"
    )


def _ivy_module(dependencies: Sequence[Dependency]) -> str:
    """Return an Ivy module: `master` is the Maven jar itself, `runtime` its dependencies."""
    lines = "\n".join(
        f"    <dependency org={quoteattr(dependency.organisation)}"
        f" name={quoteattr(dependency.module)} rev={quoteattr(dependency.revision)}"
        f' conf="default->{"master,runtime" if dependency.transitive else "master"}"/>'
        for dependency in dependencies
    )
    return (
        '<ivy-module version="2.0">\n'
        '  <info organisation="coordinator-state" module="jars"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{lines}\n  </dependencies>\n"
        "</ivy-module>\n"
    )


def _is_unreachable(output: str) -> bool:
    return any(sign in output for sign in _UNREACHABLE)


def _reason(output: str) -> str | None:
    """Return one line of Ivy's output with the reason; None if the repository is unreachable."""
    if _is_unreachable(output):
        return None
    lines = [line.strip(":\t ") for line in output.splitlines()]
    return next(
        (line for line in lines if "not found" in line), lines[-1] if lines else "no output"
    )
