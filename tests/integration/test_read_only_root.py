"""Which paths the program writes: those that docs/kubernetes.md names, and no others.

Every file system is read-only, but for a folder `/data` and an empty `/tmp`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from streaming.jvm.jars import cache_folder, delta_jars
from streaming.local.broker.embedded import EmbeddedBroker
from tests.support.brokers.fresh_broker import FreshBroker

pytestmark = [pytest.mark.long, pytest.mark.release]

_PROGRAM: Final = Path(sys.executable).with_name("coordinator-state")
# `/mnt` stands for `/data`, which this machine need not have. What is below /tmp stays readable.
_ENTER: Final = r"""
set -e
mount --make-rprivate /
mount --bind "$1" /mnt
shift
mount --bind / /srv
mount --rbind /tmp /srv/tmp
mount -t tmpfs tmpfs /tmp
for folder in $KEPT; do
  case $folder in /tmp/*) mkdir -p "$folder"; mount --rbind "/srv$folder" "$folder";; esac
done
for folder in $KEPT; do
  case $folder in /tmp/*) mount -o remount,bind,ro "$folder";; esac
done
umount --lazy /srv
awk '$5 != "/mnt" && $5 != "/tmp" && $5 !~ "^/(proc|sys|dev)(/|$)" {print $5}' \
    /proc/self/mountinfo | while read -r folder; do
  mount -o remount,bind,ro "$folder" 2>/dev/null || true
done
mount -o remount,bind,ro /
for folder in / /var /srv $KEPT; do
  if touch "$folder/here" 2>/dev/null; then echo "$folder can be written" >&2; exit 9; fi
done
exec "$@"
"""


def run_read_only(
    data: Path, *command: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    kept = (Path(__file__).parents[2], Path(sys.prefix), cache_folder())
    return subprocess.run(
        ["unshare", "--mount", "bash", "-c", _ENTER, "enter", data, *command],  # noqa: S607
        env={
            "PATH": os.environ["PATH"],
            "JDK_JAVA_OPTIONS": os.environ["JDK_JAVA_OPTIONS"],
            "HOME": "/nonexistent",
            "COORDINATOR_STATE_CACHE": str(cache_folder()),
            "KEPT": " ".join(map(str, kept)),
            **environment,
        },
        cwd="/",
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a mount namespace takes root")
    folder = tmp_path / "data"
    folder.mkdir()
    tried = run_read_only(folder, "true")
    if "unshare failed" in tried.stderr or "permission denied" in tried.stderr:
        pytest.skip("this machine permits no mount namespace")
    assert tried.returncode == 0, tried.stderr
    return folder


@pytest.fixture
def broker(fresh_broker: FreshBroker) -> EmbeddedBroker:
    started = fresh_broker()
    simulate = (_PROGRAM, "simulate", "--groups", "5", "--records", "300")
    subprocess.run([*simulate, "--bootstrap-servers", started.bootstrap_servers], check=True)
    return started


@pytest.mark.parametrize("engine", ["driver", pytest.param("spark", marks=pytest.mark.cluster)])
def test_run_and_sql_write_only_their_volumes(
    data: Path, broker: EmbeddedBroker, engine: str
) -> None:
    delta_jars()
    done = run_read_only(
        data,
        *(_PROGRAM, "run", "--bootstrap-servers", broker.bootstrap_servers, "--available-now"),
        *("--tables", "/mnt/tables", "--checkpoint", "/mnt/checkpoints/tables"),
        *("--engine", engine),
        NUMBA_CACHE_DIR="/mnt/numba",
    )
    assert done.returncode == 0, done.stderr
    assert {entry.name for entry in data.iterdir()} == {"tables", "checkpoints", "numba"}
    question = "SELECT count(*) AS n FROM groups"
    asked = run_read_only(data, _PROGRAM, "sql", "--tables", "/mnt/tables", question)
    assert asked.returncode == 0, asked.stderr
    assert "5" in asked.stdout
