"""The archive of the classes of Spark's JVM: a start maps it instead of loading the classes.

To load and verify its classes takes about a third of the time in which Spark starts. HotSpot's
class-data sharing (CDS, JEP 350) stores them in a file when a JVM ends. A JVM ignores the file of
another JVM or of other jars, and every file if its class path has a folder that is not empty.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from streaming.jvm.jars import cache_folder, is_ours
from streaming.jvm.spark_home import linked_home

ON_CLASS_PATH: Final = {"HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "YARN_CONF_DIR"}
"""Variables that put other jars or folders on the class path of Spark."""
_QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""The JVM would write to stdout which classes it cannot archive."""


def archive_of(java: Path) -> Path:
    """Return the file for this `java` command and the installed Spark; it may not exist."""
    executable = java.resolve()
    made_for = (str(executable), executable.stat().st_mtime_ns, str(linked_home()))
    digest = hashlib.sha256(repr(made_for).encode()).hexdigest()
    return cache_folder() / f"spark-classes-{digest[:16]}.jsa"


def options_to_use(java: Path) -> str:
    """Return the options of a JVM that uses the archive, "" if it cannot use one."""
    if os.environ.keys() & ON_CLASS_PATH:
        return ""
    try:
        archive = archive_of(java)
        is_usable = is_ours(archive) and is_ours(archive.parent)
    except (OSError, RuntimeError):
        # Without a home folder there is no cache folder.
        return ""
    return f'{_QUIET} -XX:SharedArchiveFile="{archive}"' if is_usable else ""


def options_to_make(archive: Path) -> str:
    """Return the options of a JVM that writes an archive when it ends."""
    return f'{_QUIET} -XX:ArchiveClassesAtExit="{archive}"'
