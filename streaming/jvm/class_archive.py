"""The archive of the classes of Spark's JVM: later starts map it instead of loading the classes.

To load and verify its classes takes about half of the time in which Spark starts. HotSpot's
class-data sharing (CDS, JEP 350) stores them in a file when a JVM ends. A JVM ignores the file of
another JVM or of other jars, and every file if its class path has a folder that is not empty.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from streaming.jvm.jars import cache_folder

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""The JVM would write to stdout which classes it cannot archive."""


def archive_of(java: Path) -> Path:
    """Return the file for this `java` command and the installed Spark; it may not exist yet."""
    import pyspark

    found = java.resolve()
    made_for = (str(found), found.stat().st_mtime_ns, pyspark.__file__, pyspark.__version__)
    digest = hashlib.sha256(repr(made_for).encode()).hexdigest()
    return cache_folder() / f"spark-classes-{digest[:16]}.jsa"


def options_to_use(archive: Path) -> str:
    """Return the options of a JVM that uses an archive, "" if there is none.

    A file without content stands for an archive that could not be made.
    """
    is_there = archive.is_file() and archive.stat().st_size
    return f'{_QUIET} -XX:SharedArchiveFile="{archive}"' if is_there else ""


def options_to_make(archive: Path) -> str:
    """Return the options of a JVM that writes an archive when it ends."""
    return f'{_QUIET} -XX:ArchiveClassesAtExit="{archive}"'
