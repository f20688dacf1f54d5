"""The cache of jars, with a java command in the place of Ivy that writes what it was asked for."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
from streaming.jars import cache_folder, delta_jars, kafka_jar_set, kafka_jars

# Answers -version, notes each run, keeps what Ivy was told, and writes two jars where Ivy would.
FAKE_IVY = """\
#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "17"'; exit; fi
echo run >> {runs}
while [ $# -gt 0 ]; do
  case "$1" in
    -settings) cp "$2" {told}/ ;;
    -ivy) cp "$2" {told}/ ;;
    -retrieve) jars=$(dirname "$2") ;;
  esac
  shift
done
{then}
"""
WRITE_JARS = 'printf jar-b > "$jars/b-1.jar"; printf jar-aa > "$jars/a-1.jar"'


class FakeIvy:
    """A JAVA_HOME whose java behaves as told and counts its runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "bin").mkdir(parents=True)
        self.does(WRITE_JARS)

    def does(self, script: str) -> None:
        java = self._folder / "bin" / "java"
        runs = self._folder / "runs"
        java.write_text(FAKE_IVY.format(runs=runs, told=self._folder, then=script))
        java.chmod(0o755)

    @property
    def runs(self) -> int:
        runs = self._folder / "runs"
        return len(runs.read_text().splitlines()) if runs.exists() else 0

    def told(self, file: str) -> str:
        return (self._folder / file).read_text()


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeIvy:
    monkeypatch.setenv("COORDINATOR_STATE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return FakeIvy(tmp_path / "java")


def test_the_second_call_starts_nothing(
    ivy: FakeIvy, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with caplog.at_level(logging.INFO):
        jars = kafka_jars("4.2.0")
    assert [jar.name for jar in jars] == ["a-1.jar", "b-1.jar"]
    assert [jar.read_text() for jar in jars] == ["jar-aa", "jar-b"]
    assert "fetching the jars of Kafka 4.2.0" in caplog.text
    assert "(once)" in caplog.text

    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    assert kafka_jars("4.2.0") == jars
    assert ivy.runs == 1


def test_nothing_but_the_set_stays_in_the_cache(ivy: FakeIvy) -> None:
    delta_jars()
    assert ivy.runs == 1
    names = sorted(path.name for path in cache_folder().iterdir())
    assert names == ["delta-4.4.0", "delta-4.4.0.lock"]
    manifest = json.loads((cache_folder() / "delta-4.4.0" / "manifest.json").read_text())
    assert manifest == {"a-1.jar": 6, "b-1.jar": 5}


@pytest.mark.parametrize("damage", ["jar gone", "jar cut", "manifest gone", "manifest cut"])
def test_a_damaged_set_is_fetched_again(ivy: FakeIvy, damage: str) -> None:
    jars = delta_jars()
    what, how = damage.split()
    file = jars[0] if what == "jar" else jars[0].with_name("manifest.json")
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:3])
    assert delta_jars() == jars
    assert jars[0].read_text() == "jar-aa"
    assert ivy.runs == 2


def test_what_a_killed_fetch_left_is_not_taken_for_a_set(ivy: FakeIvy) -> None:
    half = cache_folder() / "delta-4.4.0.partial" / "jars"
    half.mkdir(parents=True)
    (half / "half.jar").write_text("h")
    assert [jar.name for jar in delta_jars()] == ["a-1.jar", "b-1.jar"]
    assert ivy.runs == 1
    assert not half.exists()


def test_a_failed_fetch_leaves_no_set(ivy: FakeIvy) -> None:
    ivy.does(f"{WRITE_JARS}; exit 1")
    with pytest.raises(ConfigurationError):
        delta_jars()
    assert [path.name for path in cache_folder().iterdir()] == ["delta-4.4.0.lock"]
    ivy.does(WRITE_JARS)
    assert len(delta_jars()) == 2


def test_two_at_once_fetch_once(ivy: FakeIvy) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: delta_jars(), range(4)))
    assert all(answer == answers[0] for answer in answers)
    assert ivy.runs == 1


def test_without_network_it_says_so_in_one_line(ivy: FakeIvy) -> None:
    ivy.does("echo '\tServer access error at url (java.net.UnknownHostException: x)'; exit 1")
    with pytest.raises(ConfigurationError) as caught:
        kafka_jars("4.2.0")
    text = str(caught.value)
    assert text.startswith("the jars of Kafka 4.2.0 are not in ")
    assert "run once with network" in text
    assert "COORDINATOR_STATE_CACHE" in text
    assert "\n" not in text


def test_a_connection_that_breaks_once_is_resumed(ivy: FakeIvy) -> None:
    """The second run finds what the first one left in its folder."""
    ivy.does(
        'if [ -e "$jars/a-1.jar" ]; then printf b > "$jars/b-1.jar"; exit; fi\n'
        'printf a > "$jars/a-1.jar"; echo Connection reset; exit 1'
    )
    assert [jar.name for jar in kafka_jars("4.2.0")] == ["a-1.jar", "b-1.jar"]
    assert ivy.runs == 2


def test_a_version_that_does_not_exist_is_named(ivy: FakeIvy) -> None:
    ivy.does("echo '\t:: org.apache.kafka#kafka_2.13;9.9.9: not found'; exit 1")
    with pytest.raises(ConfigurationError, match=r"kafka_2\.13;9\.9\.9: not found"):
        kafka_jars("9.9.9")


def test_a_cache_that_cannot_be_written(ivy: FakeIvy) -> None:
    cache_folder().write_text("a file in the way")
    with pytest.raises(ConfigurationError, match="cannot write into the cache folder"):
        delta_jars()
    assert ivy.runs == 0


def test_ivy_knows_one_repository_and_none_of_the_users(ivy: FakeIvy) -> None:
    kafka_jars("4.2.0")
    settings = ivy.told("ivysettings.xml")
    assert settings.count("m2compatible") == 1
    assert "://" not in settings
    assert "user.home" not in settings


def test_delta_comes_without_what_it_depends_on(ivy: FakeIvy) -> None:
    delta_jars()
    module = ivy.told("ivy.xml")
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
