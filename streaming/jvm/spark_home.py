"""A SPARK_HOME from which Spark's Python processes import PySpark as compiled bytecode.

Spark's JVM puts `$SPARK_HOME/python/lib/pyspark.zip` first on the path of each Python process that
it starts (`PythonUtils.sparkPythonPath`). The archive has no bytecode, so each process compiles
PySpark again, which takes most of the time in which it starts. This module makes a folder whose
links lead to the installed PySpark. Folders replace the archives. Each of these folders has a link
to the installed package.

A copy of `bin/spark-class` starts the JVM without the module `jdk.incubator.vector`. Spark always
adds it, only MLlib uses it, and each JVM with it writes a warning to stderr that no option
switches off.
Source: launcher/src/main/java/org/apache/spark/launcher/JavaModuleOptions.java at 4.2.0.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from streaming.jvm.jars import cache_folder, is_ours

SPARK_HOME: Final = "SPARK_HOME"
_ARCHIVES: Final = Path("python", "lib")
_SPARK_CLASS: Final = "bin/spark-class"
_EXEC: Final = 'exec "${CMD[@]}"\n'
"""The last line of `spark-class`: it replaces the shell with the JVM."""
_EXEC_WITHOUT_MODULE: Final = """\
for INDEX in "${!CMD[@]}"; do
  if [ "${CMD[INDEX]}" = "--add-modules=jdk.incubator.vector" ]; then
    unset "CMD[INDEX]"
  fi
done
exec "${CMD[@]}"
"""
_ONE_START: Final = threading.Lock()


@contextmanager
def linked_spark_home() -> Iterator[None]:
    """Set SPARK_HOME to the linked folder while the caller starts a JVM.

    A SPARK_HOME of the user stays as it is. If the folder cannot be made or used, the JVM uses the
    installed PySpark. Executors of other machines have a SPARK_HOME of their own.
    """
    with _ONE_START:
        home = None if SPARK_HOME in os.environ else _made()
        if home is None:
            yield
            return
        os.environ[SPARK_HOME] = str(home)
        try:
            yield
        finally:
            os.environ.pop(SPARK_HOME, None)


def linked_home() -> Path:
    """Return the linked folder for the installed PySpark; it may not exist.

    Another version, place or content of PySpark has another folder.

    Raises:
        RuntimeError: there is no cache folder.
    """
    import pyspark

    made_for = repr((pyspark.__version__, sorted(_links().items()), _spark_class()))
    return cache_folder() / f"spark-home-{hashlib.sha256(made_for.encode()).hexdigest()[:16]}"


def _made() -> Path | None:
    """Return the linked folder, and make it if it is missing; None if Spark cannot use it."""
    try:
        home = linked_home()
        if not home.exists():
            _make(home)
        is_usable = is_ours(home) and is_ours(home.parent)
    except (OSError, RuntimeError):
        # Without a home folder there is no cache folder.
        return None
    # PySpark looks for a distribution that it fetched before it takes its own jars.
    is_usable &= not (home / "spark-distribution").exists()
    is_usable &= os.access(home / "bin" / "spark-submit", os.X_OK)
    is_usable &= os.access(home / "jars", os.R_OK | os.X_OK)
    # A colon separates the folders of a path.
    return home if is_usable and os.pathsep not in str(home) else None


def _make(home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}-") as partial:
        made = Path(partial, home.name)
        for name, target in _links().items():
            link = made / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(target)
        if script := _spark_class():
            (made / _SPARK_CLASS).write_text(script)
            (made / _SPARK_CLASS).chmod(0o755)
        try:
            made.rename(home)
        except OSError:
            # Another process may be faster.
            if not home.exists():
                raise


def _links() -> dict[str, str]:
    """Return the targets of the links, by their names in the folder."""
    installed = _installed()
    folders = {_ARCHIVES.parts[0], "bin", "__pycache__"}
    links = {entry.name: entry for entry in installed.iterdir() if entry.name not in folders}
    links |= {f"bin/{script.name}": script for script in (installed / "bin").glob("*")}
    if _spark_class():
        del links[_SPARK_CLASS]
    for archive in (installed / _ARCHIVES).glob("*.zip"):
        package = archive.stem.partition("-")[0]
        spec = find_spec(package)
        name = str(_ARCHIVES / archive.name)
        if spec is None or spec.origin is None:
            links[name] = archive
        else:
            links[f"{name}/{package}"] = Path(spec.origin).parent
    return {name: str(target) for name, target in links.items()}


def _spark_class() -> str:
    """Return the script without the module; empty if the installed one ends in another way."""
    try:
        script = (_installed() / _SPARK_CLASS).read_text()
    except FileNotFoundError:
        return ""
    return script.removesuffix(_EXEC) + _EXEC_WITHOUT_MODULE if script.endswith(_EXEC) else ""


def _installed() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent
