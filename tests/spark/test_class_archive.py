"""The archive of the classes of Spark's JVM: made once, then a JVM takes its classes from it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.errors import ConfigurationError
from streaming.jvm.class_archive import ON_CLASS_PATH, archive_of, options_to_use
from streaming.jvm.java import find_java
from streaming.run import class_training

_SESSION = """
from streaming.run.session import build_session
print(build_session().range(7).count())
"""
_FROM_ARCHIVE = "source: shared objects file (top)"


def run_python(*arguments: str, **environment: str) -> str:
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout


@pytest.mark.release
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_jvm_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    """Also in a folder with a space in its name; the maker may have a configuration of Spark."""
    cache = tmp_path / "a cache"
    (tmp_path / "spark-defaults.conf").touch()
    run_python(
        *("-m", "streaming.run.class_training"),
        COORDINATOR_STATE_CACHE=str(cache),
        SPARK_CONF_DIR=str(tmp_path),
    )
    (archive,) = cache.glob("*.jsa")
    made_at_ns = archive.stat().st_mtime_ns
    log = tmp_path / "classes.log"
    printed = run_python(
        "-c",
        _SESSION,
        COORDINATOR_STATE_CACHE=str(cache),
        JDK_JAVA_OPTIONS=f"-Xlog:class+load:file={log}",
    )
    assert printed.split() == ["7"]
    assert log.read_text().count(_FROM_ARCHIVE) > 5_000
    run_python("-m", "streaming.run.class_training", COORDINATOR_STATE_CACHE=str(cache))
    assert archive.stat().st_mtime_ns == made_at_ns


def test_without_a_usable_archive_a_jvm_has_no_options_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ON_CLASS_PATH:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COORDINATOR_STATE_CACHE", str(tmp_path))
    java = find_java()
    assert options_to_use(java) == ""
    archive = archive_of(java)
    archive.write_bytes(b"classes")
    archive.chmod(0o444)
    tmp_path.chmod(0o755)
    assert options_to_use(java).endswith(f'-XX:SharedArchiveFile="{archive}"')
    # Others could put code there.
    tmp_path.chmod(0o777)
    assert options_to_use(java) == ""
    tmp_path.chmod(0o755)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert options_to_use(java) == ""
    monkeypatch.delenv("SPARK_CONF_DIR")
    monkeypatch.setenv("COORDINATOR_STATE_CACHE", "~nobody-has-this-name/cache")
    assert options_to_use(java) == ""


def test_an_interrupted_training_leaves_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATOR_STATE_CACHE", str(tmp_path))
    monkeypatch.setattr(class_training, "_train", lambda partial: partial.write_bytes(b"half"))
    with pytest.raises(ConfigurationError, match=r"exit status 4"):
        class_training.make_archive()
    assert not archive_of(find_java()).exists()


def test_each_java_has_an_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATOR_STATE_CACHE", str(tmp_path))
    other = tmp_path / "java"
    other.touch()
    assert archive_of(find_java()) == archive_of(find_java())
    assert archive_of(find_java()) != archive_of(other)
