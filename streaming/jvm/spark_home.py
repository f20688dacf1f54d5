"""A SPARK_HOME from which Spark's Python processes import PySpark as compiled bytecode.

Spark's JVM puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of each Python process that
it starts (`PythonUtils.sparkPythonPath`). The archive has no bytecode, so each process would
compile PySpark again, which takes most of the time in which it starts. The folder here has links to
all that the installed PySpark has. Only instead of the archives there are folders, each with a link
to the installed package.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from streaming.jvm.jars import cache_folder, is_ours

SPARK_HOME: Final = "SPARK_HOME"
_ARCHIVES: Final = Path("python", "lib")


@contextmanager
def linked_spark_home() -> Iterator[None]:
    """Set SPARK_HOME to the linked folder for a JVM that starts meanwhile.

    A SPARK_HOME of the user stays as it is. If the folder cannot be made in the cache folder, the
    JVM uses the installed PySpark.
    """
    home = None if SPARK_HOME in os.environ else _made()
    if home is None:
        yield
        return
    os.environ[SPARK_HOME] = str(home)
    try:
        yield
    finally:
        del os.environ[SPARK_HOME]


def linked_home() -> Path:
    """Return the linked folder for the installed PySpark; it may not exist.

    Raises:
        RuntimeError: there is no cache folder.
    """
    import pyspark

    made_for = repr((pyspark.__file__, pyspark.__version__))
    return cache_folder() / f"spark-home-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}"


def _made() -> Path | None:
    """Return the linked folder, and make it if it is missing; None if it cannot be used."""
    try:
        home = linked_home()
        if not home.exists():
            home.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}-") as partial:
                made = Path(partial, home.name)
                _link(made)
                with suppress(FileExistsError):
                    # Another process may be faster.
                    made.rename(home)
        is_usable = is_ours(home) and is_ours(home.parent)
    except (OSError, RuntimeError):
        # Without a home folder there is no cache folder.
        return None
    # A class path has its folders in one text.
    return home if is_usable and os.pathsep not in str(home) else None


def _link(home: Path) -> None:
    import pyspark

    installed = Path(pyspark.__file__).parent
    (home / _ARCHIVES).mkdir(parents=True)
    for entry in installed.iterdir():
        if entry.name != _ARCHIVES.parts[0]:
            (home / entry.name).symlink_to(entry)
    for archive in (installed / _ARCHIVES).glob("*.zip"):
        package = archive.stem.partition("-")[0]
        spec = find_spec(package)
        place = home / _ARCHIVES / archive.name
        if spec is None or spec.origin is None:
            place.symlink_to(archive)
        else:
            place.mkdir()
            (place / package).symlink_to(Path(spec.origin).parent)
