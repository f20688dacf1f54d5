"""The jars of the Kafka broker and of Delta, fetched once from Maven Central into a cache.

Ivy, which pyspark ships, resolves them under settings of our own: its one resolver is Maven
Central. Ivy's default settings, and Spark's, also read `~/.m2` and `~/.ivy2`, and fail where one
of these holds a POM without its jar.

A set of jars appears in the cache by one rename, with a manifest of names and sizes beside the
jars. Where the manifest fits, nothing is started and no network is needed; where it does not, the
set is fetched again.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import logging
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

import platformdirs

from streaming.errors import ConfigurationError
from streaming.java import find_java

logger = logging.getLogger(__name__)

KAFKA_VERSION = "4.2.0"
DELTA_VERSION = "4.4.0"
# Delta names its jar after the Spark minor version and the Scala version it is built for.
DELTA_SPARK_MODULE = "delta-spark_4.2_2.13"

_CACHE_VARIABLE = "COORDINATOR_STATE_CACHE"
_MANIFEST = "manifest.json"
# A repository may fail in the middle of a hundred requests; the second attempt resumes the first.
_ATTEMPTS = 2
_CONNECTION_TIMEOUT_MS = 10_000
_READ_TIMEOUT_MS = 60_000
# What Ivy prints when it could not reach a repository, rather than not find a module there.
_UNREACHABLE = ("Server access error", "not found. url=", "Connection", "timed out", "unreachable")

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
    """One Maven module; `transitive` brings the modules of its runtime scope as well."""

    organisation: str
    module: str
    revision: str
    transitive: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that are fetched together: `name` is their folder, `title` what a person reads."""

    name: str
    title: str
    dependencies: tuple[Dependency, ...]


def kafka_jars(version: str = KAFKA_VERSION) -> list[Path]:
    """Return the class path of a Kafka broker with its tools and a log4j to write its log with.

    Raises:
        ConfigurationError: the jars are not cached and could not be fetched.
    """
    return cached_jars(kafka_jar_set(version))


def delta_jars() -> list[Path]:
    """Return the jars that Spark needs for Delta tables, for `spark.jars`.

    Raises:
        ConfigurationError: the jars are not cached and could not be fetched.
    """
    return cached_jars(delta_jar_set())


def kafka_jar_set(version: str) -> JarSet:
    """Name the modules of a broker.

    Kafka 4 logs through log4j 2; Kafka 3 through reload4j, the maintained log4j 1. kafka-tools
    comes without its dependencies, which are those of Connect and its web server.
    """
    kafka = "org.apache.kafka"
    logging_backend = (
        Dependency(organisation="org.slf4j", module="slf4j-reload4j", revision="1.7.36")
        if version.startswith("3.")
        else Dependency(
            organisation="org.apache.logging.log4j", module="log4j-slf4j-impl", revision="2.25.3"
        )
    )
    return JarSet(
        name=f"kafka-{version}",
        title=f"Kafka {version}",
        dependencies=(
            Dependency(organisation=kafka, module="kafka_2.13", revision=version),
            Dependency(
                organisation=kafka, module="kafka-tools", revision=version, transitive=False
            ),
            logging_backend,
        ),
    )


def delta_jar_set() -> JarSet:
    """Name the modules of Delta; what else they depend on, Spark brings along."""
    modules = (
        DELTA_SPARK_MODULE,
        "delta-storage",
        "delta-kernel-api",
        "delta-kernel-defaults",
        "delta-kernel-unitycatalog",
    )
    return JarSet(
        name=f"delta-{DELTA_VERSION}",
        title=f"Delta {DELTA_VERSION}",
        dependencies=tuple(
            Dependency(
                organisation="io.delta", module=module, revision=DELTA_VERSION, transitive=False
            )
            for module in modules
        ),
    )


def cache_folder() -> Path:
    """Return the folder of the jars: `$COORDINATOR_STATE_CACHE`, else the user's cache folder."""
    configured = os.environ.get(_CACHE_VARIABLE)
    folder = Path(configured) if configured else platformdirs.user_cache_path("coordinator-state")
    return folder.expanduser().absolute()


def cached_jars(jar_set: JarSet) -> list[Path]:
    """Return the jars of a set, sorted by name; fetch them first where the cache lacks them.

    Raises:
        ConfigurationError: they could not be fetched.
    """
    folder = cache_folder() / jar_set.name
    jars = _read_manifest(folder)
    if jars is None:
        with _locked(folder) as lock:
            # Another process may have fetched the set while this one waited for the lock.
            jars = _read_manifest(folder) or _fetch(jar_set, folder, lock)
    return jars


def _read_manifest(folder: Path) -> list[Path] | None:
    """Return the jars that the manifest names, or None unless each is there in its size."""
    try:
        sizes: dict[str, int] = json.loads((folder / _MANIFEST).read_text())
        fits = all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return None
    return [folder / name for name in sorted(sizes)] if fits else None


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """Hold the lock of a jar set's folder; the kernel gives it back when its holders are gone."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder.with_name(f"{folder.name}.lock"), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write into the cache folder {folder.parent} ({error.strerror}): "
            f"set {_CACHE_VARIABLE} to one that can be written"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _fetch(jar_set: JarSet, folder: Path, lock: int) -> list[Path]:
    """Resolve a set with Ivy into a folder of its own and rename that to `folder`."""
    java, ivy = find_java(), _ivy_jar()
    logger.info(
        "fetching the jars of %(jars)s into %(folder)s (once) ...",
        {"jars": jar_set.title, "folder": folder},
    )
    work = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    jars = work / "jars"
    jars.mkdir(parents=True)
    (work / "ivysettings.xml").write_text(_SETTINGS)
    (work / "ivy.xml").write_text(_ivy_module(jar_set))
    command = [
        *(str(java), f"-Divy.default.ivy.user.dir={work}", "-jar", str(ivy)),
        *("-settings", str(work / "ivysettings.xml"), "-cache", str(work / "cache")),
        *("-ivy", str(work / "ivy.xml"), "-retrieve", f"{jars}/[artifact]-[revision].[ext]"),
    ]
    for _ in range(_ATTEMPTS):
        # Ivy holds the lock as well: should this process be killed, nobody else touches the
        # folder until Ivy, too, is gone.
        ivy_run = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=(lock,),
            check=False,
        )
        if ivy_run.returncode == 0 or not _is_unreachable(ivy_run.stdout):
            break
    if ivy_run.returncode != 0:
        shutil.rmtree(work, ignore_errors=True)
        raise ConfigurationError(_failure(jar_set, ivy_run.stdout))
    sizes = {jar.name: jar.stat().st_size for jar in sorted(jars.glob("*.jar"))}
    (jars / _MANIFEST).write_text(json.dumps(sizes, indent=1))
    jars.replace(folder)
    shutil.rmtree(work, ignore_errors=True)
    logger.info(
        "fetched the %(count)d jars of %(jars)s", {"count": len(sizes), "jars": jar_set.title}
    )
    return [folder / name for name in sizes]


def _ivy_jar() -> Path:
    """Find the Ivy jar inside pyspark, without the cost of importing pyspark."""
    spec = importlib.util.find_spec("pyspark")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        for jar in sorted(Path(location).glob("jars/ivy-*.jar")):
            return jar
    raise ConfigurationError(
        "pyspark, whose Ivy fetches the jars, is not installed: "
        "pip install 'coordinator-state[spark]'"
    )


def _ivy_module(jar_set: JarSet) -> str:
    """Write the set as an Ivy module: Maven's jar itself is `master`, its needs are `runtime`."""
    dependencies = "\n".join(
        f"    <dependency org={quoteattr(dependency.organisation)}"
        f" name={quoteattr(dependency.module)} rev={quoteattr(dependency.revision)}"
        f' conf="default->{"master,runtime" if dependency.transitive else "master"}"/>'
        for dependency in jar_set.dependencies
    )
    return (
        '<ivy-module version="2.0">\n'
        f'  <info organisation="coordinator-state" module={quoteattr(jar_set.name)}/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n"
        "</ivy-module>\n"
    )


def _is_unreachable(output: str) -> bool:
    return any(sign in output for sign in _UNREACHABLE)


def _failure(jar_set: JarSet, output: str) -> str:
    """Make one line of Ivy's output: no way to the repository, or something it does not have."""
    if _is_unreachable(output):
        return (
            f"the jars of {jar_set.title} are not in {cache_folder()} and Maven Central cannot be "
            f"reached: run once with network, or set {_CACHE_VARIABLE} to a folder that has them"
        )
    lines = [line.strip(":\t ") for line in output.splitlines()]
    reason = next(
        (line for line in lines if "not found" in line), lines[-1] if lines else "no word"
    )
    return f"cannot fetch the jars of {jar_set.title} from Maven Central: {reason}"
