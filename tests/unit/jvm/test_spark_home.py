"""The linked SPARK_HOME: all of the installed PySpark, with packages in place of the archives."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from streaming.jvm.spark_home import SPARK_HOME, linked_home, linked_spark_home

INSTALLED = Path(pyspark.__file__).parent
_IMPORT = "import py4j, pyspark; print(*py4j.__path__, *pyspark.__path__)"


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(SPARK_HOME, raising=False)
    monkeypatch.setenv("COORDINATOR_STATE_CACHE", str(tmp_path / "a cache"))
    yield
    assert SPARK_HOME not in os.environ


def home_of_a_session() -> Path | None:
    with linked_spark_home():
        home = os.environ.get(SPARK_HOME)
    return None if home is None else Path(home)


@pytest.fixture
def home() -> Path:
    """The home of a session with the installed PySpark."""
    home = home_of_a_session()
    assert home is not None
    return home


def test_the_archives_of_spark_import_the_installed_packages(home: Path) -> None:
    archives = sorted((INSTALLED / "python" / "lib").glob("*.zip"))
    assert len(archives) == 2
    # As Spark's JVM makes the path of a Python process.
    path = [str(home / "python" / "lib" / archive.name) for archive in archives]
    imported = subprocess.run(
        [sys.executable, "-S", "-c", _IMPORT],
        env={"PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    py4j, _, of_pyspark = imported.partition(f"py4j {home}")
    assert py4j.startswith(str(home))
    assert Path(f"{home}{of_pyspark}").resolve() == INSTALLED.resolve()


def test_all_else_is_linked_and_a_second_start_makes_nothing(home: Path) -> None:
    installed = {entry.name for entry in INSTALLED.iterdir()} - {"__pycache__"}
    assert {entry.name for entry in home.iterdir()} == installed
    assert (home / "jars").resolve() == (INSTALLED / "jars").resolve()
    scripts = {entry.name for entry in (INSTALLED / "bin").iterdir()}
    assert {entry.name for entry in (home / "bin").iterdir()} == scripts
    assert (home / "bin" / "spark-submit").resolve() == INSTALLED.resolve() / "bin" / "spark-submit"
    made_at_ns = home.stat().st_mtime_ns
    assert home_of_a_session() == home
    assert home.stat().st_mtime_ns == made_at_ns
    assert [entry.name for entry in home.parent.iterdir()] == [home.name]


def test_the_jvm_starts_without_the_module_that_it_would_warn_of(
    home: Path, tmp_path: Path
) -> None:
    # In place of Java: it answers as Spark's launcher does, with the command of a JVM.
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    command = ("echo", "--add-modules=jdk.incubator.vector", "-Dfile=a folder", "Main")
    java.write_text(f"#!/bin/sh\nprintf '\\0\\n'; printf '%s\\0' {shlex.join(command)}\n")
    java.chmod(0o755)
    started = subprocess.run(
        [home / "bin" / "spark-submit", "pyspark-shell"],
        env={**os.environ, "JAVA_HOME": str(tmp_path / "jdk"), SPARK_HOME: str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (started.stdout, started.stderr) == ("-Dfile=a folder Main\n", "")


def test_of_two_processes_that_make_it_the_slower_uses_that_of_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rename = Path.rename

    def after_the_other(made: Path, home: Path) -> Path:
        shutil.copytree(made, home, symlinks=True)
        return rename(made, home)

    monkeypatch.setattr(Path, "rename", after_the_other)
    home = home_of_a_session()
    assert home is not None
    assert [entry.name for entry in home.parent.iterdir()] == [home.name]


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another installation of PySpark: a folder with the same entries."""
    folder = tmp_path / "pyspark"
    folder.mkdir()
    for entry in INSTALLED.iterdir():
        (folder / entry.name).symlink_to(entry)
    monkeypatch.setattr(pyspark, "__file__", str(folder / "__init__.py"))
    return folder


def test_another_content_of_pyspark_is_linked_anew(copy: Path) -> None:
    before = home_of_a_session()
    (copy / "conf").mkdir()
    (copy / "bin").unlink()
    shutil.copytree(INSTALLED / "bin", copy / "bin")
    # A launch script of another form.
    (copy / "bin" / "spark-class").write_text("#!/bin/sh\n")
    after = home_of_a_session()
    assert before is not None
    assert after not in (None, before)
    for name in ("conf", "bin/spark-class"):
        assert (after / name).resolve() == copy / name


@pytest.mark.parametrize(("name", "is_missing"), [("bin", True), ("spark-distribution", False)])
def test_what_spark_cannot_start_from_is_not_used(copy: Path, name: str, is_missing: bool) -> None:
    """PySpark beside a Spark distribution has no jars; one with another Hadoop has others."""
    assert home_of_a_session() is not None
    if is_missing:
        (copy / name).unlink()
    else:
        (copy / name).mkdir()
    assert home_of_a_session() is None


def test_a_spark_home_of_the_user_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as of_user:
        of_user.setenv(SPARK_HOME, "/of/the/user")
        assert home_of_a_session() == Path("/of/the/user")
        assert os.environ[SPARK_HOME] == "/of/the/user"
    assert not linked_home().exists()


def test_a_folder_that_others_may_change_is_not_used(home: Path) -> None:
    home.parent.chmod(0o777)
    assert home_of_a_session() is None
    home.parent.chmod(0o755)
    home.chmod(0o777)
    assert home_of_a_session() is None


@pytest.mark.parametrize("cache", ["file/cache", "two:paths"])
def test_without_a_usable_cache_folder_spark_starts_as_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COORDINATOR_STATE_CACHE", str(tmp_path / cache))
    assert home_of_a_session() is None
