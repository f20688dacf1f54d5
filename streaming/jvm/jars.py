"""The jars of the Kafka broker and of Delta, fetched once from Maven Central into a cache.

A set of jars appears in the cache by one rename. Each use holds every jar to the SHA-512 in the
set's lock file (`jar_locks/`, written by `make lock-jars`): that takes 0.06 s for the 48 MB of a
broker, and notices a jar that was damaged or replaced in a shared cache. A set that fits needs
neither a process nor network; one that does not is fetched again, and refused if it still differs.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from streaming.errors import ConfigurationError
from streaming.jvm.ivy import Dependency, IvyError, retrieve
from streaming.jvm.jar_lock import difference, read_lock, write_lock

logger = logging.getLogger(__name__)

KAFKA_VERSION = "4.2.0"
DELTA_VERSION = "4.4.0"
# Delta names its jar after the Spark minor version and the Scala version it is built for.
DELTA_SPARK_MODULE = "delta-spark_4.2_2.13"

_CACHE_VARIABLE = "COORDINATOR_STATE_CACHE"
_LOCKS = Path(__file__).parent / "jar_locks"
_OWN_LOCK = "jars.sha512"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that are fetched together.

    Attributes:
        name: their folder in the cache.
        title: their name for a person.
        locks: the folder of their lock file, `<name>.sha512`. A set without one (another version of
            Kafka) is held to the sums of its first fetch.
    """

    name: str
    title: str
    dependencies: tuple[Dependency, ...]
    locks: Path = _LOCKS

    @property
    def lock_file(self) -> Path:
        """The file of the SHA-512 sums that are committed with the program."""
        return self.locks / f"{self.name}.sha512"


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
        ConfigurationError: they could not be fetched, or one is not the jar of the lock file.
    """
    folder = cache_folder() / jar_set.name
    jars = _verified(jar_set, folder)
    if jars is None:
        with _locked(folder) as lock:
            # Another process may have fetched the set while this one waited for the lock.
            jars = _verified(jar_set, folder) or _fetch(jar_set, folder, lock)
    return jars


def _verified(jar_set: JarSet, folder: Path) -> list[Path] | None:
    """Return the jars of the lock file, or None unless each is in the folder and is that jar."""
    sums = read_lock(jar_set.lock_file)
    if sums is None:
        with suppress(ConfigurationError):
            sums = read_lock(folder / _OWN_LOCK)
    if sums is None or not folder.is_dir():
        return None
    fault = difference(folder, sums)
    if fault is not None:
        logger.warning(
            "the jars in %(folder)s are not those of %(jars)s: %(fault)s",
            {"folder": folder, "jars": jar_set.title, "fault": fault},
        )
        return None
    return [folder / name for name in sorted(sums)]


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
    """Resolve a set into a folder of its own, check it, and rename that to `folder`."""
    logger.info(
        "fetching the jars of %(jars)s into %(folder)s (once) ...",
        {"jars": jar_set.title, "folder": folder},
    )
    work = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        jars = _resolve(jar_set, work, lock)
        _require_locked(jar_set, work / "jars")
        write_lock(work / "jars" / _OWN_LOCK, jars)
        (work / "jars").replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    logger.info(
        "fetched the %(count)d jars of %(jars)s", {"count": len(jars), "jars": jar_set.title}
    )
    return sorted(folder / jar.name for jar in jars)


def _require_locked(jar_set: JarSet, folder: Path) -> None:
    """Refuse jars of a repository that are not those of the lock file."""
    sums = read_lock(jar_set.lock_file)
    if sums is None:
        logger.warning(
            "%(jars)s has no lock file: its jars are not verified, and not tested with this "
            "program",
            {"jars": jar_set.title},
        )
        return
    fault = difference(folder, sums)
    if fault is not None:
        raise ConfigurationError(
            f"the jars of {jar_set.title} that Maven Central gave are not the ones that this "
            f"program was tested with, and none is used: {fault}; a proxy or mirror may have "
            f"replaced it: fetch elsewhere, and set {_CACHE_VARIABLE} to a folder that has them"
        )


def lock_jars(jar_set: JarSet) -> int:
    """Fetch a set anew, unverified, and write its lock file; returns how many jars it has.

    Raises:
        ConfigurationError: they could not be fetched.
    """
    with tempfile.TemporaryDirectory() as work, _locked(Path(work, jar_set.name)) as lock:
        jars = _resolve(jar_set, Path(work), lock)
        write_lock(jar_set.lock_file, jars)
        return len(jars)


def _resolve(jar_set: JarSet, work: Path, lock: int) -> dict[Path, str]:
    """Have Ivy retrieve a set into `work/jars`; returns the coordinates of each jar."""
    try:
        return retrieve(jar_set.dependencies, work, lock=lock)
    except IvyError as error:
        if error.reason is None:
            raise ConfigurationError(
                f"the jars of {jar_set.title} are not in {cache_folder()} and Maven Central cannot "
                f"be reached: run once with network, or set {_CACHE_VARIABLE} to a folder that has "
                "them"
            ) from None
        raise ConfigurationError(
            f"cannot fetch the jars of {jar_set.title} from Maven Central: {error.reason}"
        ) from None
