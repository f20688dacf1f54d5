"""The cache of jars, with a repository of this process, and a java command in the place of Ivy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha512
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
from streaming.jvm import maven
from streaming.jvm.jar_lock import read_lock
from streaming.jvm.jars import (
    JarSet,
    cache_folder,
    cached_jars,
    delta_jar_set,
    kafka_jar_set,
    lock_jars,
)
from tests.support.brokers.jar_sets import ALL_JAR_SETS
from tests.support.brokers.receivers import QuietHandler, serving

# Answers -version, notes each run, keeps the files that Ivy gets, and writes two jars as Ivy does.
FAKE_IVY = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17"'; exit; fi
echo run >> {runs}
while [ $# -gt 0 ]; do
  case "$1" in
    -settings) cp "$2" {kept}/ ;;
    -ivy) cp "$2" {kept}/ ;;
    -retrieve) jars="${{2%%/\\[*}}/org.example" ;;
  esac
  shift
done
mkdir -p "$jars/a/1" "$jars/b/1"
{then}
"""
WRITE_JARS = 'printf jar-b > "$jars/b/1/b-1.jar"; printf jar-aa > "$jars/a/1/a-1.jar"'
PLACES = {"a-1.jar": "/org/example/a/1/a-1.jar", "b-1.jar": "/org/example/b/1/b-1.jar"}
JARS = {PLACES["a-1.jar"]: b"jar-aa", PLACES["b-1.jar"]: b"jar-b"}
LOCK = "".join(
    f"# org.example:{name[0]}:1\n{sha512(JARS[place]).hexdigest()}  {name}\n"
    for name, place in PLACES.items()
)


class Repository:
    """A Maven repository that answers each address with a jar or a status, and counts requests."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.answers: dict[str, bytes | int] = dict(JARS)
        self.failures: list[int] = []
        """The statuses of the next answers."""
        self.requests: list[str] = []

    @property
    def rounds(self) -> int:
        return len(self.requests) // len(JARS)


@contextmanager
def maven_repository() -> Iterator[Repository]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            served.requests.append(self.path)
            answer = served.answers.get(self.path, 404)
            if served.failures:
                answer = served.failures.pop()
            self.answer(*((200, answer) if isinstance(answer, bytes) else (answer,)))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    served = Repository(f"http://127.0.0.1:{server.server_port}")
    with serving(server):
        yield served


class FakeIvy:
    """A JAVA_HOME whose java behaves as told and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "bin").mkdir(parents=True)
        self.does(WRITE_JARS)

    def does(self, script: str) -> None:
        java = self._folder / "bin" / "java"
        runs = self._folder / "runs"
        java.write_text(FAKE_IVY.format(runs=runs, kept=self._folder, then=script))
        java.chmod(0o755)

    @property
    def runs(self) -> int:
        runs = self._folder / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def received(self, file: str) -> str:
        return (self._folder / file).read_text()


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIvy:
    monkeypatch.setenv("COORDINATOR_STATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setattr(maven, "_FIRST_BACKOFF_S", 0.01)
    return FakeIvy(tmp_path / "java")


@pytest.fixture
def repository(ivy: FakeIvy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    del ivy
    with maven_repository() as repository:
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", repository.address)
        yield repository


@pytest.fixture
def kafka(tmp_path: Path) -> JarSet:
    """A set with a lock file."""
    kafka = replace(kafka_jar_set("4.2.0"), locks=tmp_path)
    kafka.lock_file.write_text(LOCK)
    return kafka


@pytest.fixture
def unlocked(tmp_path: Path) -> JarSet:
    """A set without a lock file."""
    return replace(delta_jar_set(), locks=tmp_path)


def test_a_set_is_downloaded_once_and_nothing_else_stays_in_the_cache(
    kafka: JarSet,
    repository: Repository,
    ivy: FakeIvy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # What a killed download left is not taken for a set.
    half = cache_folder() / "kafka-4.2.0.partial" / "jars"
    half.mkdir(parents=True)
    (half / "half.jar").write_text("h")
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: cached_jars(kafka), range(4)))
    assert "fetching the jars of Kafka 4.2.0" in caplog.text
    assert "(once)" in caplog.text
    assert [(jar.name, jar.read_text()) for jar in answers[0]] == [
        ("a-1.jar", "jar-aa"),
        ("b-1.jar", "jar-b"),
    ]
    assert [cached_jars(kafka), *answers] == [answers[0]] * 5
    assert sorted(repository.requests) == sorted(JARS)
    assert ivy.runs == 0
    names = sorted(path.name for path in cache_folder().iterdir())
    assert names == ["kafka-4.2.0", "kafka-4.2.0.lock"]
    assert (cache_folder() / "kafka-4.2.0" / "jars.sha512").read_text() == LOCK


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "cut": lambda jar: jar.write_text("jar"),
    "replaced by one of its size": lambda jar: jar.write_text("evil!!"),
    "joined by another": lambda jar: jar.with_name("evil.jar").write_text("evil"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("has_lock_file", [True, False])
def test_a_set_that_was_damaged_or_changed_in_the_cache_is_fetched_again(
    kafka: JarSet,
    unlocked: JarSet,
    repository: Repository,
    ivy: FakeIvy,
    damage: Callable[[Path], object],
    has_lock_file: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    jar_set = kafka if has_lock_file else unlocked
    jars = cached_jars(jar_set)
    assert cached_jars(jar_set) == jars
    assert repository.rounds + ivy.runs == 1
    damage(jars[0])
    assert cached_jars(jar_set) == jars
    assert jars[0].read_text() == "jar-aa"
    assert repository.rounds + ivy.runs == 2
    assert sorted(path.name for path in jars[0].parent.iterdir()) == [*PLACES, "jars.sha512"]
    assert f"the cached jars of {jar_set.title} in" in caplog.text


def assert_refused(jar_set: JarSet, beginning: str, *said: str) -> None:
    """The set cannot be fetched: one line says so, and no set stays in the cache."""
    with pytest.raises(ConfigurationError) as caught:
        cached_jars(jar_set)
    text = str(caught.value)
    assert text.startswith(beginning)
    assert all(words in text for words in said)
    assert "\n" not in text
    assert [path.name for path in cache_folder().iterdir()] == [f"{jar_set.name}.lock"]


CHANGED = "the jars of Kafka 4.2.0 from Maven Central differ from the lock file"
REFUSED = "cannot fetch the jars of Kafka 4.2.0 from Maven Central"
MISSING = "the jars of Kafka 4.2.0 are not in "
UNREACHABLE = ("run once with network", "COORDINATOR_STATE_CACHE")


@pytest.mark.parametrize(
    ("answer", "beginning", "said"),
    [
        (b"evil!!", CHANGED, ["a-1.jar has SHA-512 "]),
        (404, f"{REFUSED}: HTTP status 404 for ", ["/a-1.jar"]),
        (503, MISSING, UNREACHABLE),
    ],
)
def test_a_failed_download_is_told_in_one_line_and_leaves_no_set(
    kafka: JarSet, repository: Repository, answer: bytes | int, beginning: str, said: list[str]
) -> None:
    repository.answers[PLACES["a-1.jar"]] = answer
    assert_refused(kafka, beginning, *said)
    repository.answers = dict(JARS)
    assert len(cached_jars(kafka)) == 2


@pytest.mark.usefixtures("ivy")
@pytest.mark.parametrize("address", ["file:///m2", "repo.example/m2", "http://user:secret@"])
def test_an_address_of_a_mirror_that_is_none(
    kafka: JarSet, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", address)
    assert_refused(kafka, "cannot fetch the jars", "DEFAULT_ARTIFACT_REPOSITORY is not an address")


def test_a_message_has_no_password_of_the_mirror(
    kafka: JarSet, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = repository.address.replace("http://", "http://me:secret@")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", address)
    repository.answers = {}
    with pytest.raises(ConfigurationError) as refused:
        cached_jars(kafka)
    assert "HTTP status 404" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_download_that_fails_once_is_tried_again(kafka: JarSet, repository: Repository) -> None:
    repository.failures = [503, 500]
    assert len(cached_jars(kafka)) == 2
    assert len(repository.requests) == 4


@pytest.mark.parametrize(
    ("script", "beginning", "said"),
    [
        (f"{WRITE_JARS}; exit 1", "cannot fetch the jars of Delta", []),
        (
            "echo '\t:: org.apache.kafka#kafka_2.13;9.9.9: not found'; exit 1",
            "cannot fetch the jars of Delta",
            ["kafka_2.13;9.9.9: not found"],
        ),
        (
            "echo '\tServer access error at url (java.net.UnknownHostException: x)'; exit 1",
            "the jars of Delta",
            UNREACHABLE,
        ),
    ],
)
def test_a_failure_of_ivy_is_told_in_one_line_and_leaves_no_set(
    unlocked: JarSet, ivy: FakeIvy, script: str, beginning: str, said: list[str]
) -> None:
    ivy.does(script)
    assert_refused(unlocked, beginning, *said)


@pytest.mark.parametrize("content", [b"cut of", b"\xff"])
def test_a_damaged_lock_file_is_no_missing_one(
    kafka: JarSet, repository: Repository, content: bytes
) -> None:
    kafka.lock_file.write_bytes(b"# a:b:1\n0123\n" + content)
    with pytest.raises(ConfigurationError, match="is not a lock file of jars"):
        cached_jars(kafka)
    assert not repository.requests


def test_a_version_without_a_lock_file_is_used_with_a_warning(
    unlocked: JarSet, ivy: FakeIvy, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(cached_jars(unlocked)) == 2
    assert f"{unlocked.title} has no lock file: its jars are not verified" in caplog.text
    assert ivy.runs == 1


def test_a_cache_of_an_earlier_release_is_taken_over(kafka: JarSet, repository: Repository) -> None:
    """It has no sums of its own: those of the program say whether the jars are right."""
    folder = cached_jars(kafka)[0].parent
    (folder / "jars.sha512").unlink()
    (folder / "manifest.json").write_text("{}")
    assert len(cached_jars(kafka)) == 2
    assert repository.rounds == 1


@pytest.mark.usefixtures("ivy")
def test_a_lock_file_is_written_from_what_is_fetched(unlocked: JarSet) -> None:
    assert lock_jars(unlocked) == 2
    assert unlocked.lock_file.read_text() == LOCK
    assert not cache_folder().exists()


@pytest.mark.parametrize("jar_set", ALL_JAR_SETS, ids=lambda jar_set: jar_set.name)
def test_every_set_that_the_program_and_its_tests_use_is_locked(jar_set: JarSet) -> None:
    jars = read_lock(jar_set.lock_file)
    assert jars is not None
    assert all(len(bytes.fromhex(jar.sha512)) == sha512().digest_size for jar in jars.values())
    # Each jar is named after its coordinates, and each module that is asked for is there.
    coordinates = [tuple(jar.coordinates.split(":")) for jar in jars.values()]
    assert {f"{module}-{revision}.jar" for _, module, revision in coordinates} == jars.keys()
    asked = {(d.organisation, d.module, d.revision) for d in jar_set.dependencies}
    assert asked <= set(coordinates)


def test_a_connection_of_ivy_that_breaks_once_is_resumed(unlocked: JarSet, ivy: FakeIvy) -> None:
    """The second run finds what the first one left in its folder."""
    ivy.does(
        'if [ -e "$jars/a/1/a-1.jar" ]; then printf jar-b > "$jars/b/1/b-1.jar"; exit; fi\n'
        'printf jar-aa > "$jars/a/1/a-1.jar"; echo Connection reset; exit 1'
    )
    assert [jar.name for jar in cached_jars(unlocked)] == ["a-1.jar", "b-1.jar"]
    assert ivy.runs == 2


def test_a_cache_that_cannot_be_written(kafka: JarSet, repository: Repository) -> None:
    cache_folder().write_text("a file in the way")
    with pytest.raises(ConfigurationError, match="cannot write to the cache folder"):
        cached_jars(kafka)
    assert not repository.requests


def test_ivy_knows_one_repository_and_delta_without_what_it_depends_on(
    unlocked: JarSet, ivy: FakeIvy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DEFAULT_ARTIFACT_REPOSITORY", raising=False)
    cached_jars(unlocked)
    settings, module = ivy.received("ivysettings.xml"), ivy.received("ivy.xml")
    assert settings.count("m2compatible") == 1
    assert settings.count("://") == settings.count("https://repo1.maven.org/maven2/") == 1
    assert "user.home" not in settings
    assert module.count('conf="default->master"') == 5
    assert "runtime" not in module


def test_the_users_cache_folder_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COORDINATOR_STATE_CACHE", raising=False)
    assert cache_folder().name == "coordinator-state"
    assert cache_folder().is_absolute()
