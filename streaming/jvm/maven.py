"""Fetching jars from Maven Central, or from a mirror of it.

Jars with a lock file are downloaded. Ivy, which is part of pyspark, finds the modules that a set
without a lock file depends on. It runs with this module's settings, which have one resolver. The
default settings of Ivy and Spark also read `~/.m2` and `~/.ivy2`, and fail if these have a POM
without its jar.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

import tenacity

from streaming.errors import ConfigurationError
from streaming.jvm.jar_lock import LockedJar
from streaming.jvm.java import find_java

MIRROR: Final = "DEFAULT_ARTIFACT_REPOSITORY"
"""Spark's variable for the address of another repository than Maven Central."""
_CENTRAL: Final = "https://repo1.maven.org/maven2"
# A repository may fail in the middle of a hundred requests.
_ATTEMPTS = 3
_DOWNLOADS = 4
_FIRST_BACKOFF_S = 0.5
_CONNECTION_TIMEOUT_MS = 10_000
_READ_TIMEOUT_MS = 60_000
# Ivy's output for an unreachable repository, in contrast to a module that is not found.
_UNREACHABLE = ("Server access error", "not found. url=", "Connection", "timed out", "unreachable")
_RETRIEVED = "[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"

_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <timeout-constraints>
    <timeout-constraint name="patience" connectionTimeout="{connection_ms}"
                        readTimeout="{read_ms}"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="central" root={root} m2compatible="true" timeoutConstraint="patience"/>
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


class FetchError(Exception):
    """Jars could not be fetched; `reason` is None if Maven Central is unreachable."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason


def download(jars: Mapping[str, LockedJar], folder: Path) -> None:
    """Download jars, given by file name, into a new folder; the caller verifies them.

    Raises:
        FetchError: a jar could not be downloaded.
    """
    # Few starts download jars.
    import requests

    def is_transient(error: BaseException) -> bool:
        answer = getattr(error, "response", None)
        if answer is not None:
            return bool(answer.status_code >= requests.codes.server_error)
        unreachable = (
            requests.ConnectionError,
            requests.Timeout,
            requests.exceptions.ChunkedEncodingError,
        )
        return isinstance(error, unreachable)

    def reason_of(error: requests.RequestException) -> str | None:
        """Why the download failed, without the address of the mirror: it may have a password."""
        if is_transient(error):
            return None
        if error.response is not None:
            place = urlsplit(error.response.url).path
            return f"HTTP status {error.response.status_code} for {place}"
        return f"{MIRROR} is not an address of HTTP ({type(error).__name__})"

    def download_one(name: str) -> None:
        organisation, module, revision = jars[name].coordinates.split(":")
        place = f"{organisation.replace('.', '/')}/{module}/{revision}/{name}"
        timeout_s = _CONNECTION_TIMEOUT_MS / 1000, _READ_TIMEOUT_MS / 1000
        answer = session.get(f"{_repository()}/{place}", timeout=timeout_s)
        answer.raise_for_status()
        (folder / name).write_bytes(answer.content)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_transient),
        wait=tenacity.wait_exponential(multiplier=_FIRST_BACKOFF_S),
        stop=tenacity.stop_after_attempt(_ATTEMPTS),
        reraise=True,
    )
    folder.mkdir(parents=True)
    with requests.Session() as session, ThreadPoolExecutor(_DOWNLOADS) as pool:
        try:
            for _ in pool.map(lambda name: retrying.copy()(download_one, name), jars):
                pass
        except requests.RequestException as error:
            pool.shutdown(cancel_futures=True)
            raise FetchError(reason_of(error)) from error


def _repository() -> str:
    return os.environ.get(MIRROR, _CENTRAL).rstrip("/")


def retrieve(dependencies: Sequence[Dependency], work: Path, *, lock: int) -> dict[Path, str]:
    """Retrieve modules into the new folder `work/jars`; return the coordinates of each jar.

    Ivy inherits the descriptor `lock`. So if this process is killed, the folder stays locked until
    Ivy exits.

    Raises:
        ConfigurationError: Java or pyspark is missing.
        FetchError: a module could not be fetched.
    """
    java, ivy = find_java(), _ivy_jar()
    jars, retrieved = work / "jars", work / "retrieved"
    jars.mkdir(parents=True)
    settings = _SETTINGS.format(
        root=quoteattr(f"{_repository()}/"),
        connection_ms=_CONNECTION_TIMEOUT_MS,
        read_ms=_READ_TIMEOUT_MS,
    )
    (work / "ivysettings.xml").write_text(settings)
    (work / "ivy.xml").write_text(_ivy_module(dependencies))
    command = [
        *(str(java), f"-Divy.default.ivy.user.dir={work}", "-jar", str(ivy)),
        *("-settings", str(work / "ivysettings.xml"), "-cache", str(work / "cache")),
        *("-ivy", str(work / "ivy.xml"), "-retrieve", f"{retrieved}/{_RETRIEVED}"),
    ]
    for _ in range(_ATTEMPTS):
        # A retry resumes the attempt before it.
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
        raise FetchError(_reason(run.stdout))
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
