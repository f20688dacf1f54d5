"""Do the tests notice a fault in the code? `python -m tests.seeded_faults --faults 200`.

Each fault is put into a copy of the repository, where the tests of its area run until one fails. A
fault that no test notices has survived; some faults change no behaviour. Compare the survivors
before and after a change of tests. The copies have the tests of `--repository`, which may be
another checkout. The faults of all areas alternate, so that a run that is ended early is a sample.
The tests that most likely notice a fault run first: those that noticed an earlier one in its file,
those with the name of the file, and those that noticed most faults of its area.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from tests.seeded_faults.faults import AREAS, Area, Fault, chosen_faults

_REPOSITORY: Final = Path(__file__).parents[2]
_FIRST_FAILURE: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_SOUND_TIMEOUT_S: Final = 3_600.0
_NO_TESTS: Final = 5
"""Pytest's exit status if all tests are left out by their marks."""
_LIKELY: Final = 3
"""Test files of an area that run first."""
_SLOWER: Final = 4.0
"""A fault is noticed by a timeout if the tests take so many times as long as without it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The first test that noticed a fault; None if the fault has survived."""

    fault: Fault
    noticed_by: str | None
    seconds: float


@dataclass(slots=True)
class Noticing:
    """The test files that noticed faults, by source file and by area."""

    by_path: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    by_area: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, fault: Fault, file: str) -> None:
        self.by_path[fault.path].insert(0, file)
        self.by_area[fault.area.name][file] += 1

    def likely(self, fault: Fault, copy: Path) -> list[str]:
        """The files to run first; empty if nothing is known."""
        tests = copy.glob(f"tests/**/test_{Path(fault.path).stem}.py")
        named = sorted(str(test.relative_to(copy)) for test in tests)
        noticed_most = self.by_area[fault.area.name].most_common(_LIKELY)
        return list(
            dict.fromkeys([*self.by_path[fault.path], *named, *(file for file, _ in noticed_most)])
        )


def main() -> int:
    """Print a line for each fault; 1 if the tests fail without a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.seeded_faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=200, help="number of faults")
    parser.add_argument("--seed", type=int, default=1, help="another seed chooses other faults")
    parser.add_argument("--areas", nargs="*", default=[area.name for area in AREAS])
    parser.add_argument("--jobs", type=int, default=2, help="faults at the same time")
    parser.add_argument("--repository", type=Path, default=_REPOSITORY)
    arguments = parser.parse_args()
    faults = chosen_faults(arguments.repository, arguments.faults, arguments.seed)
    faults = [fault for fault in faults if fault.area.name in arguments.areas]
    areas = [area for area in AREAS if area.name in arguments.areas]
    with tempfile.TemporaryDirectory(prefix="coordinator-state-faults-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for job in range(arguments.jobs):
            copies.put(_copy(arguments.repository, Path(folder, str(job))))
        with ThreadPoolExecutor(arguments.jobs) as pool:
            durations = pool.map(lambda area: _without_faults(area, copies), areas)
            seconds = dict(zip((area.name for area in areas), durations, strict=True))
            if not all(seconds.values()):
                return 1
            survivors = 0
            noticing = Noticing()
            for outcome in pool.map(
                lambda fault: _tried(fault, copies, noticing, seconds[fault.area.name] * _SLOWER),
                faults,
            ):
                survivors += outcome.noticed_by is None
                result = f"noticed by {outcome.noticed_by}" if outcome.noticed_by else "SURVIVED"
                say(f"{outcome.fault.area.name} {outcome.fault}: {result}, {outcome.seconds:.0f} s")
    say(f"{survivors} of {len(faults)} faults survived")
    return 0


def _copy(repository: Path, folder: Path) -> Path:
    tracked = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(tracked, cwd=repository, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (repository / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(repository / name, folder / name)
    return folder


def _without_faults(area: Area, copies: SimpleQueue[Path]) -> float:
    """Return how long the tests of an area take on the code as it is; 0 if they fail.

    This also compiles the code of the copy.
    """
    copy = copies.get()
    started = time.monotonic()
    status, output = _run_tests(_tests(area, copy), copy, _SOUND_TIMEOUT_S)
    copies.put(copy)
    seconds = time.monotonic() - started
    if status != 0:
        say(f"{area.name}: the tests fail without a fault", output[-2_000:])
        return 0.0
    say(f"{area.name}: passed without a fault in {seconds:.0f} s")
    return seconds


def _tried(
    fault: Fault, copies: SimpleQueue[Path], noticing: Noticing, timeout_s: float
) -> Outcome:
    copy = copies.get()
    path = copy / fault.path
    likely = noticing.likely(fault, copy)
    source, stat = path.read_bytes(), path.stat()
    started = time.monotonic()
    path.write_bytes(fault.applied_to(source))
    os.utime(path)
    try:
        # One run would collect all of them in the order of the folders.
        status, output = _run_tests(likely, copy, timeout_s) if likely else (0, "")
        if status in (0, _NO_TESTS):
            others = [*_tests(fault.area, copy), *(f"--ignore={file}" for file in likely)]
            status, output = _run_tests(others, copy, timeout_s)
    finally:
        path.write_bytes(source)
        # Python compiles a file again if its time, in seconds, has changed.
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        copies.put(copy)
    noticed_by = None
    if status != 0:
        failure = _FIRST_FAILURE.search(output)
        noticed_by = failure[1] if failure else "a timeout" if status is None else "pytest's start"
        if failure:
            noticing.add(fault, failure[1].split("::")[0])
    return Outcome(fault, noticed_by, time.monotonic() - started)


def _tests(area: Area, copy: Path) -> list[str]:
    return [f"tests/{path}" for path in area.tests if (copy / "tests" / path).exists()]


def _run_tests(paths: Iterable[str], copy: Path, timeout_s: float) -> tuple[int | None, str]:
    """Return pytest's exit status, None after a timeout, and its output."""
    command = [
        *(sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "--timeout=0"),
        *("-p", "no:cacheprovider"),
        *("-m", "not long and not spark and not integration", *paths),
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    process = subprocess.Popen(
        command,
        cwd=copy,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    return process.returncode, output


def say(*lines: str) -> None:
    """Print lines at once: a run takes an hour."""
    sys.stdout.write("\n".join((*lines, "")))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
