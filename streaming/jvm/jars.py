"""The jars of the Kafka broker and of Delta, fetched once from Maven Central into a cache.

A set of jars is added to the cache by one rename. Each use verifies every jar against the SHA-512
in the set's lock file (`jar_locks/`, written by `make lock-jars`). That takes 0.06 s for the 48 MB
of a broker, and detects a damaged or replaced jar in a shared cache. A set that matches needs no
network and no process. A set that differs is fetched again, and refused if it still differs.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from streaming.errors import ConfigurationError
from streaming.jvm.jar_lock import LockedJar, difference, read_lock, write_lock
from streaming.jvm.maven import Dependency, FetchError, download, retrieve

logger = logging.getLogger(__name__)

KAFKA_VERSION = "4.4.0"
DELTA_VERSION = "4.4.0"
# The name of Delta's module contains the Spark minor version and the Scala version.
DELTA_SPARK_MODULE = "delta-spark_4.2_2.13"
HADOOP_VERSION = "3.5.0"
"""That of the Hadoop client in Spark 4.2."""

_CACHE_VARIABLE = "COORDINATOR_STATE_CACHE"
_LOCKS = Path(__file__).parent / "jar_locks"
_OWN_LOCK = "jars.sha512"


@dataclass(frozen=True, slots=True, kw_only=True)
class JarSet:
    """Jars that are fetched together.

    Attributes:
        name: the folder of the set in the cache.
        title: the name of the set in messages.
        locks: the folder of the lock file `<name>.sha512`. A set without a lock file (another
            version of Kafka) is verified against the sums of its first fetch.
    """

    name: str
    title: str
    dependencies: tuple[Dependency, ...]
    locks: Path = _LOCKS

    @property
    def lock_file(self) -> Path:
        """The lock file, which is committed with the program."""
        return self.locks / f"{self.name}.sha512"


def kafka_jars(version: str = KAFKA_VERSION) -> list[Path]:
    """Return the class path of a Kafka broker, with its tools and log4j.

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


def s3_jars() -> list[Path]:
    """Return the jars that Spark needs for S3, for `spark.jars`.

    Raises:
        ConfigurationError: the jars are not cached and could not be fetched.
    """
    return cached_jars(s3_jar_set())


def kafka_jar_set(version: str) -> JarSet:
    """Return the modules of a broker.

    Kafka 4 logs with log4j 2, Kafka 3 with reload4j, the maintained log4j 1. kafka-tools is fetched
    without its dependencies: those are for Connect and its web server.
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
    """Return the modules of Delta; Spark includes their other dependencies."""
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


def s3_jar_set() -> JarSet:
    """Return Hadoop's file system for S3, and the modules of the AWS SDK that it needs.

    The whole SDK is one jar of 600 MB.
    """
    sdk = ("apache-client", "netty-nio-client", "s3", "s3-transfer-manager", "sts")
    return JarSet(
        name=f"hadoop-aws-{HADOOP_VERSION}",
        title=f"Hadoop's S3A {HADOOP_VERSION}",
        dependencies=(
            Dependency(
                organisation="org.apache.hadoop",
                module="hadoop-aws",
                revision=HADOOP_VERSION,
                transitive=False,
            ),
            Dependency(
                organisation="software.amazon.s3.analyticsaccelerator",
                module="analyticsaccelerator-s3",
                revision="1.3.0",
                transitive=False,
            ),
            *(
                Dependency(organisation="software.amazon.awssdk", module=module, revision="2.35.4")
                for module in sdk
            ),
        ),
    )


def cache_folder() -> Path:
    """Return the cache folder: `$COORDINATOR_STATE_CACHE`, else the user's cache folder."""
    configured = os.environ.get(_CACHE_VARIABLE)
    folder = Path(configured) if configured else platformdirs.user_cache_path("coordinator-state")
    return folder.expanduser().absolute()


def is_ours(path: Path) -> bool:
    """Whether code there is safe to run: this user or root owns it, and not everyone can write."""
    status = path.stat()
    return status.st_uid in {0, os.getuid()} and not status.st_mode & stat.S_IWOTH


def cached_jars(jar_set: JarSet) -> list[Path]:
    """Return the jars of a set, sorted by name; fetch them if they are not cached.

    Raises:
        ConfigurationError: the jars could not be fetched, or one differs from the lock file.
    """
    folder = cache_folder() / jar_set.name
    jars = _verified(jar_set, folder)
    if jars is None:
        with locked(folder) as lock:
            # Another process may have fetched the set while this one waited for the lock.
            jars = _verified(jar_set, folder) or _fetch(jar_set, folder, lock)
    return jars


def _verified(jar_set: JarSet, folder: Path) -> list[Path] | None:
    """Return the jars of the lock file; None if a jar is missing from the folder or differs."""
    jars = read_lock(jar_set.lock_file)
    if jars is None:
        with suppress(ConfigurationError):
            jars = read_lock(folder / _OWN_LOCK)
    if jars is None or not folder.is_dir():
        return None
    fault = difference(folder, jars)
    if fault is not None:
        logger.warning(
            "the cached jars of %(jars)s in %(folder)s differ from the lock file: %(fault)s",
            {"folder": folder, "jars": jar_set.title, "fault": fault},
        )
        return None
    return [folder / name for name in sorted(jars)]


@contextmanager
def locked(entry: Path) -> Iterator[int]:
    """Hold the lock of an entry of the cache; the kernel releases it when its holders exit."""
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(entry.with_name(f"{entry.name}.lock"), os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write to the cache folder {entry.parent} ({error.strerror}): "
            f"set {_CACHE_VARIABLE} to a writable folder"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _fetch(jar_set: JarSet, folder: Path, lock: int) -> list[Path]:
    """Fetch a set into a temporary folder, verify it, and rename the folder to `folder`.

    A set with a lock file is downloaded; Ivy fetches another one.
    """
    logger.info(
        "fetching the jars of %(jars)s into %(folder)s (once) ...",
        {"jars": jar_set.title, "folder": folder},
    )
    work = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    locked_jars = read_lock(jar_set.lock_file)
    try:
        with _explained(jar_set):
            if locked_jars is None:
                logger.warning(
                    "%(jars)s has no lock file: its jars are not verified, and this program is not "
                    "tested with them",
                    {"jars": jar_set.title},
                )
                jars = retrieve(jar_set.dependencies, work, lock=lock)
                write_lock(work / "jars" / _OWN_LOCK, jars)
            else:
                download(locked_jars, work / "jars")
                _require_locked(jar_set, locked_jars, work / "jars")
                shutil.copyfile(jar_set.lock_file, work / "jars" / _OWN_LOCK)
        (work / "jars").replace(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    names = sorted(folder.glob("*.jar"))
    logger.info(
        "fetched the %(count)d jars of %(jars)s", {"count": len(names), "jars": jar_set.title}
    )
    return names


def _require_locked(jar_set: JarSet, jars: Mapping[str, LockedJar], folder: Path) -> None:
    """Refuse downloaded jars that differ from the lock file."""
    fault = difference(folder, jars)
    if fault is not None:
        raise ConfigurationError(
            f"the jars of {jar_set.title} from Maven Central differ from the lock file and are not "
            f"used: {fault}; a proxy or mirror may have replaced them: fetch them on another "
            f"network, and set {_CACHE_VARIABLE} to a folder with them"
        )


def lock_jars(jar_set: JarSet) -> int:
    """Fetch a set without verification and write its lock file; return the number of jars.

    Raises:
        ConfigurationError: the jars could not be fetched.
    """
    with tempfile.TemporaryDirectory() as work, locked(Path(work, jar_set.name)) as lock:
        with _explained(jar_set):
            jars = retrieve(jar_set.dependencies, Path(work), lock=lock)
        write_lock(jar_set.lock_file, jars)
        return len(jars)


@contextmanager
def _explained(jar_set: JarSet) -> Iterator[None]:
    """Convert a failure to fetch a set to one line with advice."""
    try:
        yield
    except FetchError as error:
        if error.reason is None:
            raise ConfigurationError(
                f"the jars of {jar_set.title} are not in {cache_folder()} and Maven Central is "
                f"unreachable: run once with network, or set {_CACHE_VARIABLE} to a folder with "
                "them"
            ) from None
        raise ConfigurationError(
            f"cannot fetch the jars of {jar_set.title} from Maven Central: {error.reason}"
        ) from None
