"""The kernel's loops are kept where a process may write; where it may not, nothing fails."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from coordinator_state.log.kernel_sources import loops_folder
from streaming.run.session import _program_as_archive
from streaming.source import kernel_cache
from streaming.source.kernel_cache import (
    ensure_kernel_cache,
    has_compiled_loops,
    mark_loops_compiled,
)

pytestmark = pytest.mark.python_version

# As a Python worker of an executor does it.
PROGRAM = """
from streaming.source.kernel_cache import ensure_kernel_cache
ensure_kernel_cache()
from coordinator_state.log import kernel
from coordinator_state.log.kernel.batches import index_batches
from coordinator_state.log.log_decoder import OffsetRange
kernel.decode_record_set(b"", OffsetRange(log_partition=0, from_offset=0, to_offset=1))
assert ".zip" in kernel.__file__
assert index_batches.signatures
print(sum(index_batches.stats.cache_hits.values()), index_batches.stats.cache_path)
"""

# Logs of both workloads are written, decoded, and compacted across fetches.
SIMULATES = """
import sys
from coordinator_state.log.commit_sampling import CommitSampling
from coordinator_state.log.held_rows import HeldRows
from coordinator_state.log.kernel.numbers import LOOPS
from coordinator_state.model.micro_batches import micro_batch
from coordinator_state.model.workload import Workload, WorkloadSettings
from streaming.local.simulation.simulate import Simulation, simulate
simulate(Simulation(workload="commits", groups=3, records=500), tables=sys.argv[1])
workload = Workload(WorkloadSettings(groups=9, log_partitions=1))
workload.run_until(500)
sampling = CommitSampling.at(workload.now_ms)
rows = HeldRows(sampling)
for batch in micro_batch(workload.take(), sampling=sampling).to_batches():
    rows.add(batch)
rows.compact()
print(sum(sum(loop.stats.cache_misses.values()) for loop in LOOPS))
"""


# A loop that is compiled in no time, as those of the kernel are.
LOOP = """
from coordinator_state.log.kernel.numbers import compiled

@compiled
def twice(number: int) -> int:
    return 2 * number

assert twice(4) == 8
"""


def blocked(place: Path) -> Path:
    """A file where a folder should be stops even root."""
    path = place / "blocked"
    path.touch()
    return path


def loads_kernel(place: Path, application: str, **environment: Path) -> tuple[int, str]:
    """Load it in a process that has no home; how many loops were cached, and where.

    Each application has its archive at another path.
    """
    archive = place / application / "program.zip"
    if not archive.exists():
        archive.parent.mkdir()
        shutil.copy(_program_as_archive(), archive)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(archive),
            "HOME": str(blocked(place) / "home"),
            **{name: str(path) for name, path in environment.items()},
        },
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    hits, _, path = done.stdout.strip().partition(" ")
    return int(hits), path


@pytest.mark.long
def test_a_temporary_or_a_named_folder_serves_every_application(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    hits, path = loads_kernel(tmp_path, "one", TMPDIR=temporary)
    (folder,) = temporary.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (hits, Path(path).is_relative_to(folder)) == (0, True)
    assert loads_kernel(tmp_path, "another", TMPDIR=temporary) == (1, path)
    # A power failure cut the files short: the loops are compiled and kept again.
    for file in Path(path).iterdir():
        os.truncate(file, 10)
    assert loads_kernel(tmp_path, "one", NUMBA_CACHE_DIR=folder) == (0, path)
    assert loads_kernel(tmp_path, "another", NUMBA_CACHE_DIR=folder) == (1, path)


@pytest.mark.parametrize("can_write", [True, False])
def test_a_loop_works_whether_or_not_it_can_be_cached(
    can_write: bool, tmp_path: Path, repository: Path
) -> None:
    """Without a named folder, loops are kept beside their file, or else in the user's cache."""
    (tmp_path / "loop.py").write_text(LOOP)
    # A file where a folder should be stops even a process that may write anywhere.
    blocked = tmp_path / ("blocked" if can_write else "__pycache__")
    blocked.touch()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")
    }
    environment |= {"XDG_CACHE_HOME": str(blocked), "HOME": str(blocked)}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(repository)])
    subprocess.run([sys.executable, "-c", "import loop"], check=True, env=environment, cwd=tmp_path)
    assert bool(list(tmp_path.rglob("*.nbi"))) == can_write


def test_it_loads_where_nothing_at_all_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_folder(*_arguments: object, **_options: object) -> str:
        raise FileNotFoundError("No usable temporary directory found")

    named = blocked(tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(named))
    monkeypatch.setattr(tempfile, "gettempdir", no_folder)
    ensure_kernel_cache()
    assert os.environ["NUMBA_CACHE_DIR"] == str(named)


def test_a_temporary_folder_that_others_may_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = tmp_path / f"coordinator-state-kernel-{os.getuid()}"
    theirs.mkdir()
    theirs.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(blocked(tmp_path)))
    ensure_kernel_cache()
    chosen = Path(os.environ["NUMBA_CACHE_DIR"])
    assert chosen.parent == tmp_path
    assert chosen != theirs
    assert stat.S_IMODE(chosen.stat().st_mode) == 0o700


def test_the_mark_is_that_of_this_program_and_processor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not has_compiled_loops()
    folder = tmp_path / loops_folder()
    folder.mkdir()
    mark_loops_compiled(folder)
    assert has_compiled_loops()
    monkeypatch.setattr(kernel_cache, "_processor", lambda: "another")
    assert not has_compiled_loops()


@pytest.mark.release
@pytest.mark.long
def test_the_set_up_compiles_every_loop(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`make venv` and the image do so: each loop once, for the types of all its callers."""
    command = [sys.executable, "-m", "streaming.run.loop_compilation"]
    for set_up in ("Makefile", "Dockerfile"):
        assert "-m streaming.run.loop_compilation" in (repository / set_up).read_text()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    shown = subprocess.run([*command, "--progress"], check=True, capture_output=True, text=True)
    assert shown.stderr == ""
    assert re.fullmatch(r"(\d of 8\n)+", shown.stdout)
    names = [file.name.partition("-")[0] for file in tmp_path.rglob("*.nbc")]
    loops = [
        f"{module.stem}.{name}"
        for module in (repository / "coordinator_state" / "log" / "kernel").glob("*.py")
        for name in re.findall(r"^@compiled\ndef (\w+)", module.read_text(), re.MULTILINE)
    ]
    assert sorted(names) == sorted(loops)
    assert has_compiled_loops()
    simulated = subprocess.run(
        [sys.executable, "-c", SIMULATES, str(tmp_path / "tables")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert simulated.stdout.split() == ["0"]
