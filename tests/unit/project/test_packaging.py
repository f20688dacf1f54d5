"""The project as others get it: the wheel alone, the lock files, what must not be in either."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Collection
from functools import cache
from importlib.metadata import distributions
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.markers import Marker
from packaging.requirements import Requirement

import coordinator_state
import streaming
from streaming.cli.main import STREAMING_EXTRA
from streaming.jvm.jars import DELTA_SPARK_MODULE, KAFKA_VERSION, delta_jar_set, kafka_jar_set
from tests.support.clients.command_line import RUN
from tests.support.sources import imported_names

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = pytest.mark.python_version

STANDARD_LIBRARY = sys.stdlib_module_names | {"tomllib"}
"""Of every Python: 3.10 does not have tomllib, and code for later ones imports it."""
LOCK_FILES = ("core.lock", "deploy.lock", "dev.lock", "installer.lock", "streaming.lock")
# A pinned line of a lock file: `name==version ; marker \`.
PINNED = re.compile(r"^(?P<pin>[a-z0-9][\w.-]*==\S+(?: ; .+?)?)(?P<continued> \\)?$", re.MULTILINE)
HOST_OR_PATH = re.compile(r"://|index-url|find-links|trusted-host| @ |(?<![\w.])[.~]*/\w")
PYTHON_VERSIONS = ("3.10", "3.11", "3.12", "3.13")

IMPORT_THE_CORE = """
import importlib, pkgutil, coordinator_state
for module in pkgutil.walk_packages(coordinator_state.__path__, "coordinator_state."):
    importlib.import_module(module.name)
"""

# Tests run beside pandas, which is no dependency of the wheel.
DECODE_A_RECORD = """
from coordinator_state import RECORD_TYPES, encode_key, write_record_batch
from coordinator_state.log.kernel import decode_record_set
from coordinator_state.log.log_decoder import OffsetRange
key = encode_key(RECORD_TYPES[1], {"group": "g", "topic": "t", "partition": 0})
batch = write_record_batch(0, [(0, 1, key, None)])
offsets = OffsetRange(log_partition=0, to_offset=1)
print(decode_record_set(batch, offsets).records_read)
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command without what could lend it a package or an index of packages."""
    ours = ("PYTHON", "PIP_", "VIRTUAL_ENV", "COORDINATOR_STATE_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env = kept | {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)


def built(builder: type[WheelBuilder | SdistBuilder], project: Path, folder: Path) -> Path:
    (artifact,) = builder(str(project)).build(directory=str(folder))
    return Path(artifact)


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(WheelBuilder, repository, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(repository: Path, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a virtual environment with our wheel and its base dependencies alone."""
    wheelhouse = repository / ".cache" / "wheelhouse"
    assert any(wheelhouse.glob("*.whl")), f"{wheelhouse} holds no wheels: run `make venv`"
    folder = tmp_path_factory.mktemp("alone") / "venv"
    venv.create(folder, with_pip=True)
    offline = ("install", "--quiet", "--no-index", "--find-links", wheelhouse)
    done = run(folder / "bin" / "python", "-m", "pip", *offline, wheel, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin"


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


def test_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    folders = {name.partition("/")[0] for name in names}
    packages = {"coordinator_state", "streaming", "pyspark_coordinator_state"}
    assert folders == packages | {"coordinator_state-0.1.0.dist-info"}
    assert {"coordinator_state/py.typed", "streaming/run/log4j2.properties"} <= set(names)
    for jar_set in (kafka_jar_set(KAFKA_VERSION), delta_jar_set()):
        assert f"streaming/jvm/jar_locks/{jar_set.name}.sha512" in names
    licenses = {Path(name).name for name in names if "/licenses/" in name}
    assert licenses == {"LICENSE", "NOTICE", "idiomorph.LICENSE", "uPlot.LICENSE"}


def test_the_sdist_builds_the_same_wheel(wheel: Path, repository: Path, tmp_path: Path) -> None:
    sdist = built(SdistBuilder, repository, tmp_path)
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / sdist.name.removesuffix(".tar.gz")
    assert (folder / "tests" / "unit" / "project" / Path(__file__).name).exists()
    sdist_wheel = built(WheelBuilder, folder, tmp_path)
    ours, theirs = (sorted(zipfile.ZipFile(file).namelist()) for file in (wheel, sdist_wheel))
    assert theirs == ours


@pytest.mark.long
def test_the_core_works_where_only_the_wheel_is_installed(installed: Path) -> None:
    """Each command is called without the extra in `unit/cli/test_cli.py`."""
    pip = (installed / "python", "-m", "pip", "list", "--format=freeze")
    listed = run(*pip, cwd=installed).stdout.splitlines()
    names = {line.partition("==")[0].lower() for line in listed}
    assert {"coordinator-state", "numba", "pyarrow"} <= names
    assert not {"pyspark", "delta-spark", "deltalake", "kafka-python"} & names
    program = installed / "coordinator-state"
    for arguments, part in (
        ((program, "--help"), "partition-for"),
        ((program, "partition-for", "testgroup"), "27"),
        ((installed / "python", "-c", IMPORT_THE_CORE), ""),
        ((installed / "python", "-c", DECODE_A_RECORD), "1\n"),
    ):
        answer = run(*arguments, cwd=installed)
        assert (answer.returncode, answer.stderr) == (0, "")
        assert part in answer.stdout
    refused = run(program, *RUN, cwd=installed)
    assert (refused.returncode, refused.stdout) == (2, "")
    (line,) = refused.stderr.splitlines()
    assert "coordinator-state[streaming]" in line


def test_what_the_packages_import_is_what_the_project_declares(
    repository: Path, project: dict[str, Any]
) -> None:
    metadata = project["project"]
    declared = [*metadata["dependencies"], *chain(*metadata["optional-dependencies"].values())]
    core = distributions_imported_by(repository / "coordinator_state")
    assert core <= names_of(metadata["dependencies"])
    assert core | distributions_imported_by(repository / "streaming") == names_of(declared)
    # The command line advises to install the extra for its packages alone.
    extra = names_of(metadata["optional-dependencies"]["streaming"])
    assert distributions_of(STREAMING_EXTRA) == extra


def distributions_imported_by(package: Path) -> set[str]:
    """Names of the distributions whose modules the sources of a package import."""
    names = {name for file in package.rglob("*.py") for name in imported_names(file)}
    # `_typeshed` is a part of type checkers, and imported for them only.
    ours = {"coordinator_state", "streaming", "_typeshed"}
    return distributions_of({name.partition(".")[0] for name in names} - ours - STANDARD_LIBRARY)


def distributions_of(modules: Collection[str]) -> set[str]:
    """Names of the distributions that bring modules."""
    # One that this Python does not need, such as tomli, is not installed.
    return {providers().get(module, normalized(module)) for module in modules}


@cache
def providers() -> dict[str, str]:
    """Name of the distribution of each module that is installed."""
    # By files: packages_distributions() of Python 3.10 lacks packages without a top_level.txt.
    names: dict[str, str] = {}
    for distribution in distributions():
        files = (distribution.read_text("RECORD") or "").splitlines()
        modules = {re.split(r"[/,.]", file)[0] for file in files}
        names |= dict.fromkeys(modules, normalized(distribution.name))
    return names


def names_of(requirements: list[str]) -> set[str]:
    return {normalized(Requirement(requirement).name) for requirement in requirements}


def test_make_can_look_for_java_before_anything_is_installed(repository: Path) -> None:
    # -S: no site-packages, as with the system's Python before `make venv`.
    done = run(sys.executable, "-S", "-c", "import streaming.jvm.java", cwd=repository)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", LOCK_FILES)
def test_a_lock_file_names_no_host_and_every_pin_has_hashes(repository: Path, name: str) -> None:
    text = (repository / "requirements" / name).read_text()
    assert [line for line in text.splitlines() if HOST_OR_PATH.search(line)] == []
    pins = list(PINNED.finditer(text))
    assert pins
    for pin in pins:
        assert pin["continued"], pin["pin"]
        assert text[pin.end() :].lstrip().startswith("--hash=sha256:"), pin["pin"]


@pytest.mark.parametrize("name", LOCK_FILES)
def test_a_lock_file_pins_what_pyproject_asks_for(
    repository: Path, project: dict[str, Any], name: str
) -> None:
    metadata, extras = project["project"], project["project"]["optional-dependencies"]
    groups = project["dependency-groups"]
    run = metadata["dependencies"] + extras["streaming"] + extras["lineage"]
    dev = [each for each in groups["dev"] if each != {"include-group": "installer"}]
    asked = {
        "core.lock": metadata["dependencies"],
        "deploy.lock": groups["deploy"],
        "streaming.lock": run,
        "installer.lock": groups["installer"],
        "dev.lock": run + groups["installer"] + dev,
    }[name]
    text = (repository / "requirements" / name).read_text()
    for python_version in PYTHON_VERSIONS:
        pinned = pins_for(text, python_version)
        for requirement in map(Requirement, asked):
            if applies(requirement.marker, python_version):
                version = pinned.get(normalized(requirement.name))
                assert version is not None, f"{name} does not pin {requirement}: run `make lock`"
                assert requirement.specifier.contains(version), f"{requirement}: run `make lock`"


def test_the_spark_that_is_asked_for_is_the_one_that_deltas_jars_are_built_for(
    project: dict[str, Any],
) -> None:
    streaming = project["project"]["optional-dependencies"]["streaming"]
    (pyspark,) = (each for each in map(Requirement, streaming) if each.name == "pyspark")
    major, minor = DELTA_SPARK_MODULE.split("_")[1].split(".")
    assert pyspark.specifier.contains(f"{major}.{minor}.9")
    for other in (int(minor) - 1, int(minor) + 1):
        assert not pyspark.specifier.contains(f"{major}.{other}.0")


def pins_for(text: str, python_version: str) -> dict[str, str]:
    """Name to version of what a lock file installs on Linux under one Python version."""
    pins: dict[str, str] = {}
    for pin in map(Requirement, (match["pin"] for match in PINNED.finditer(text))):
        if applies(pin.marker, python_version):
            name = normalized(pin.name)
            assert name not in pins, f"two versions of {name} for Python {python_version}"
            pins[name] = next(iter(pin.specifier)).version
    return pins


def applies(marker: Marker | None, python_version: str) -> bool:
    environment = {"python_version": python_version, "python_full_version": f"{python_version}.1"}
    return marker is None or marker.evaluate(environment | {"sys_platform": "linux"})


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_importing_the_packages_imports_nothing_else() -> None:
    code = (
        "import sys; import coordinator_state, streaming\n"
        "print([name for name in ('pyarrow', 'pyspark', 'kafka', 'click') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("package", [coordinator_state, streaming])
def test_every_public_name_is_there(package: ModuleType) -> None:
    assert package.__all__
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = package.no_such_name


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("streaming/__init__.py", ""),
        ("streaming/__init__.py", "import torch_that_is_not_installed"),
        ("streaming.py", ""),
    ],
)
def test_another_package_named_streaming_is_an_error_of_one_line(
    tmp_path: Path, file: str, content: str
) -> None:
    """mosaicml-streaming has one."""
    other = tmp_path / file
    other.parent.mkdir(exist_ok=True)
    other.write_text(content)
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from coordinator_state.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(
        f"Error: {other} is not the package of coordinator-state; .*\n", done.stderr
    )
