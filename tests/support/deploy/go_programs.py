"""Programs in Go: Helm, and the query path of KEDA.

They are built once from the module in `go/`, whose go.sum has the checksum of each package, and are
kept in the project's cache. A first build takes one to two minutes on two cores.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from streaming.jvm.jars import cache_folder, locked

_MODULE: Final = Path(__file__).with_name("go")
_PACKAGES: Final = ("helm.sh/helm/v3/cmd/helm", "./keda")
_LIMIT_S: Final = 1_500


def go_programs() -> Path:
    """Return the folder with `helm` and `keda`; skip the test if they cannot be built here."""
    sources = [_MODULE / name for name in ("go.mod", "go.sum", "keda/main.go")]
    wanted = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    folder = cache_folder() / f"go-programs-{wanted[:16]}"
    if not folder.exists():
        go = _go()
        with locked(folder):
            # Another process may have built them while this one waited for the lock.
            if not folder.exists():
                _build(go, folder)
    return folder


def _go() -> str:
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no Go here to build Helm with")
    # Without GOTOOLCHAIN=local, an old Go would fetch a newer one.
    answer = _run(go, "env", "GOVERSION", limit_s=60)
    installed = [int(number) for number in re.findall(r"\d+", answer)[:2]]
    (line,) = re.findall(r"^go (.+)$", (_MODULE / "go.mod").read_text(), re.MULTILINE)
    if installed < [int(number) for number in line.split(".")[:2]]:
        pytest.skip(f"Helm needs Go {line}, and this is {answer.strip()}")
    return go


def _build(go: str, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    # Without optimization the build takes a third less processor time.
    flags = ("-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-gcflags=all=-N -l")
    _run(go, "build", *flags, "-o", f"{partial}/", *_PACKAGES)
    partial.rename(folder)


def _run(*command: str, limit_s: float = _LIMIT_S) -> str:
    done = subprocess.run(
        command,
        cwd=_MODULE,
        env={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return done.stdout
