"""The cache of jars, with a java command in the place of Ivy that writes what it was asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha512
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
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

# Answers -version, notes each run, keeps the files that Ivy gets, and writes two jars as Ivy does.
FAKE_IVY = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17"'; exit; fi
echo run >> {runs}
while [ $# -gt 0 ]; do
  case "$1" in
    -settings) cp "$2" {kept}/ ;;
    -ivy) cp "$2" {kept}/ ;;
    -retrieve) jars="${{2%%/\\[*}}/org.example/module/1"; mkdir -p "$jars" ;;
  esac
  shift
done
{then}
"""
WRITE_JARS = 'printf jar-b > "$jars/b-1.jar"; printf jar-aa > "$jars/a-1.jar"'


SUMS = {"a-1.jar": sha512(b"jar-aa").hexdigest(), "b-1.jar": sha512(b"jar-b").hexdigest()}


class FakeIvy:
    """A JAVA_HOME whose java behaves as told and counts its runs; sets of the jars it writes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "bin").mkdir(parents=True)
        self.does(WRITE_JARS)
        self.kafka = replace(kafka_jar_set("4.2.0"), locks=folder)
        self.delta = replace(delta_jar_set(), locks=folder)
        for jar_set in (self.kafka, self.delta):
            self.lock(jar_set, SUMS)

    def lock(self, jar_set: JarSet, sums: dict[str, str]) -> None:
        lines = (
            f"# org.example:module:1\n{sum_of_jar}  {name}\n" for name, sum_of_jar in sums.items()
        )
        jar_set.lock_file.write_text("".join(lines))

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
    return FakeIvy(tmp_path / "java")


def test_a_set_is_fetched_once_and_nothing_else_stays_in_the_cache(
    ivy: FakeIvy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a killed fetch left is not taken for a set.
    half = cache_folder() / "kafka-4.2.0.partial" / "jars"
    half.mkdir(parents=True)
    (half / "half.jar").write_text("h")
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: cached_jars(ivy.kafka), range(4)))
    assert "fetching the jars of Kafka 4.2.0" in caplog.text
    assert "(once)" in caplog.text
    assert [(jar.name, jar.read_text()) for jar in answers[0]] == [
        ("a-1.jar", "jar-aa"),
        ("b-1.jar", "jar-b"),
    ]
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    assert [cached_jars(ivy.kafka), *answers] == [answers[0]] * 5
    assert ivy.runs == 1
    names = sorted(path.name for path in cache_folder().iterdir())
    assert names == ["kafka-4.2.0", "kafka-4.2.0.lock"]
    assert read_lock(cache_folder() / "kafka-4.2.0" / "jars.sha512") == SUMS


DAMAGES: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "cut": lambda jar: jar.write_text("jar"),
    "replaced by one of its size": lambda jar: jar.write_text("evil!!"),
    "joined by another": lambda jar: jar.with_name("evil.jar").write_text("evil"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize("has_lock_file", [True, False])
def test_a_set_that_was_damaged_or_changed_in_the_cache_is_fetched_again(
    ivy: FakeIvy,
    damage: Callable[[Path], object],
    has_lock_file: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if not has_lock_file:
        ivy.delta.lock_file.unlink()
    jars = cached_jars(ivy.delta)
    assert cached_jars(ivy.delta) == jars
    assert ivy.runs == 1
    damage(jars[0])
    assert cached_jars(ivy.delta) == jars
    assert jars[0].read_text() == "jar-aa"
    assert ivy.runs == 2
    assert sorted(path.name for path in jars[0].parent.iterdir()) == [*SUMS, "jars.sha512"]
    assert f"the cached jars of {ivy.delta.title} in" in caplog.text


CHANGED = "the jars of Kafka 4.2.0 from Maven Central differ from the lock file"
MISSING = "the jars of Kafka 4.2.0 are not in "
FAILED = "cannot fetch the jars of Kafka 4.2.0 from Maven Central: "


@pytest.mark.parametrize(
    ("script", "beginning", "said"),
    [
        (f'{WRITE_JARS}; printf evil!! > "$jars/a-1.jar"', CHANGED, ["a-1.jar has SHA-512 "]),
        ('printf jar-aa > "$jars/a-1.jar"', CHANGED, ["b-1.jar cannot be read"]),
        (f'{WRITE_JARS}; printf evil > "$jars/evil-1.jar"', CHANGED, ["evil-1.jar is not in the"]),
        (f"{WRITE_JARS}; exit 1", FAILED, []),
        (
            "echo '\t:: org.apache.kafka#kafka_2.13;9.9.9: not found'; exit 1",
            FAILED,
            ["kafka_2.13;9.9.9: not found"],
        ),
        (
            "echo '\tServer access error at url (java.net.UnknownHostException: x)'; exit 1",
            MISSING,
            ["run once with network", "COORDINATOR_STATE_CACHE"],
        ),
    ],
)
def test_a_failed_fetch_is_told_in_one_line_and_leaves_no_set(
    ivy: FakeIvy, script: str, beginning: str, said: list[str]
) -> None:
    ivy.does(script)
    with pytest.raises(ConfigurationError) as caught:
        cached_jars(ivy.kafka)
    text = str(caught.value)
    assert text.startswith(beginning)
    assert all(words in text for words in said)
    assert "\n" not in text
    assert [path.name for path in cache_folder().iterdir()] == ["kafka-4.2.0.lock"]
    ivy.does(WRITE_JARS)
    assert len(cached_jars(ivy.kafka)) == 2


@pytest.mark.parametrize("content", [b"cut of", b"\xff"])
def test_a_damaged_lock_file_is_no_missing_one(ivy: FakeIvy, content: bytes) -> None:
    ivy.kafka.lock_file.write_bytes(b"0123\n" + content)
    with pytest.raises(ConfigurationError, match="is not a lock file of jars"):
        cached_jars(ivy.kafka)
    assert ivy.runs == 0


def test_a_version_without_a_lock_file_is_used_with_a_warning(
    ivy: FakeIvy, caplog: pytest.LogCaptureFixture
) -> None:
    other = replace(kafka_jar_set("3.8.1"), locks=ivy.kafka.locks)
    assert len(cached_jars(other)) == 2
    assert "Kafka 3.8.1 has no lock file: its jars are not verified" in caplog.text


def test_a_cache_of_an_earlier_release_is_taken_over(ivy: FakeIvy) -> None:
    """It has no sums of its own: those of the program say whether the jars are right."""
    folder = cached_jars(ivy.delta)[0].parent
    (folder / "jars.sha512").unlink()
    (folder / "manifest.json").write_text("{}")
    assert len(cached_jars(ivy.delta)) == 2
    assert ivy.runs == 1


def test_a_lock_file_is_written_from_what_is_fetched(ivy: FakeIvy) -> None:
    expected = ivy.delta.lock_file.read_text()
    ivy.delta.lock_file.unlink()
    assert lock_jars(ivy.delta) == 2
    assert ivy.delta.lock_file.read_text() == expected
    assert not cache_folder().exists()


@pytest.mark.parametrize("jar_set", ALL_JAR_SETS, ids=lambda jar_set: jar_set.name)
def test_every_set_that_the_program_and_its_tests_use_is_locked(jar_set: JarSet) -> None:
    text = jar_set.lock_file.read_text()
    comments, sums = text.splitlines()[::2], read_lock(jar_set.lock_file)
    assert sums is not None
    assert all(len(bytes.fromhex(digest)) == sha512().digest_size for digest in sums.values())
    # Each jar is named after its coordinates, and each module that is asked for is there.
    names = {f"{module}-{revision}.jar" for _, module, revision in map(_coordinates, comments)}
    assert names == sums.keys()
    asked = {(d.organisation, d.module, d.revision) for d in jar_set.dependencies}
    assert asked <= set(map(_coordinates, comments))


def _coordinates(comment: str) -> tuple[str, str, str]:
    organisation, module, revision = comment.removeprefix("# ").split(":")
    return organisation, module, revision


def test_a_connection_that_breaks_once_is_resumed(ivy: FakeIvy) -> None:
    """The second run finds what the first one left in its folder."""
    ivy.does(
        'if [ -e "$jars/a-1.jar" ]; then printf jar-b > "$jars/b-1.jar"; exit; fi\n'
        'printf jar-aa > "$jars/a-1.jar"; echo Connection reset; exit 1'
    )
    assert [jar.name for jar in cached_jars(ivy.kafka)] == ["a-1.jar", "b-1.jar"]
    assert ivy.runs == 2


def test_a_cache_that_cannot_be_written(ivy: FakeIvy) -> None:
    cache_folder().write_text("a file in the way")
    with pytest.raises(ConfigurationError, match="cannot write to the cache folder"):
        cached_jars(ivy.delta)
    assert ivy.runs == 0


def test_ivy_knows_one_repository_and_delta_without_what_it_depends_on(ivy: FakeIvy) -> None:
    cached_jars(ivy.delta)
    settings, module = ivy.received("ivysettings.xml"), ivy.received("ivy.xml")
    assert settings.count("m2compatible") == 1
    assert "://" not in settings
    assert "user.home" not in settings
    assert module.count('conf="default->master"') == 5
    assert "runtime" not in module


def test_each_kafka_logs_through_its_own_library() -> None:
    def modules(version: str) -> set[str]:
        return {dependency.module for dependency in kafka_jar_set(version).dependencies}

    assert "log4j-slf4j-impl" in modules("4.2.0")
    assert "slf4j-reload4j" in modules("3.9.1")


def test_the_users_cache_folder_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COORDINATOR_STATE_CACHE", raising=False)
    assert cache_folder().name == "coordinator-state"
    assert cache_folder().is_absolute()
