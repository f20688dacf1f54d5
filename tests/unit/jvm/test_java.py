"""Which Java is found, and the one line that a person reads when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from streaming.jvm.java import JavaNotFound, find_java, parse_java_version

ADVICE = "apt-get install openjdk-17-jre-headless, or set JAVA_HOME"


def install_java(home: Path, answer: str) -> Path:
    """Put a java command into `home` that answers `-version` with the given text."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{answer}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")


def test_java_home_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_home = install_java(tmp_path / "home", 'openjdk version "17.0.15" 2025-04-15')
    on_path = install_java(tmp_path / "path", 'openjdk version "21" 2023-09-19')
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert find_java() == on_path
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == from_home


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "^no Java: JAVA_HOME is not set and no java on PATH: "
    with pytest.raises(JavaNotFound, match=f"{missing}.*{ADVICE}"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFound, match=f"{tmp_path}.*does not exist: .*{ADVICE}"):
        find_java()


@pytest.mark.parametrize(
    ("answer", "mode", "said"),
    [
        ('java version "1.8.0_402"', 0o755, "is Java 8, which is too old"),
        ('openjdk version "11.0.22" 2024-01-16', 0o755, "is Java 11, which is too old"),
        ("No Java runtime\nrequesting", 0o755, "answered 'No Java runtime', no version"),
        ("", 0o644, "does not run"),
    ],
)
def test_a_java_that_cannot_be_used(
    answer: str, mode: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = install_java(tmp_path, answer)
    java.chmod(mode)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFound, match=said) as caught:
        find_java()
    assert str(java) in str(caught.value)
    assert ADVICE in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "24" 2025-03-18', 24),
    ],
)
def test_version_texts(answer: str, version: int) -> None:
    assert parse_java_version(Path("java"), answer) == version
