"""S3 in a Spark session: Hadoop's S3A, and a log store of Delta that commits conditionally.

A commit of Delta creates the next file of the table's log. Delta's own log stores ask S3A to create
it, and S3A looks whether the object exists before it writes it: of two processes that commit at the
same time, the later one replaces the commit of the earlier one. `ConditionalLogStore.java` uses
S3A's option for a conditional write of the store (`If-None-Match`), as delta-rs does. So both
engines and maintenance can commit beside each other.

Source: S3AFileSystem.java (`innerCreateFile`) at Hadoop 3.5.0, HADOOP-19256;
storage/src/main/java/io/delta/storage/GCSLogStore.java at Delta 4.4.0.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError

from streaming.errors import first_line
from streaming.run.spark_errors import java_reasons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMES: Final = ("s3", "s3a")
_LOG_STORE: Final = "coordinator_state.ConditionalLogStore"
_REFUSED: Final = "Status Code: 412"
_FILE_SYSTEM: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_CREDENTIALS: Final = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
"""The variables and roles that delta-rs takes, too."""
LOG_STORES: Final = {f"spark.delta.logStore.{scheme}.impl": _LOG_STORE for scheme in _SCHEMES}


_ADDRESS: Final = (
    *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"),
    "AWS_ALLOW_HTTP",
)
UPLOADS: Final = {
    # A buffer in files would need Hadoop's local file system with checksums.
    "spark.hadoop.fs.s3a.fast.upload.buffer": "bytebuffer",
    "spark.hadoop.fs.s3a.multipart.size": "16M",
}


def is_s3(location: str) -> bool:
    """Whether a location is in S3, or in a store with its protocol.

    >>> is_s3("s3a://lake/tables"), is_s3("tables"), is_s3("gs://lake/tables")
    (True, False, False)
    """
    return urlsplit(location).scheme in _SCHEMES


def s3_address() -> dict[str, str]:
    """The variables of this process with the address of a store, for delta-rs in executors.

    Executors have the login themselves, because Spark writes there, too.
    """
    return {name: os.environ[name] for name in _ADDRESS if name in os.environ}


def s3_settings() -> dict[str, str]:
    """The settings of S3A, from the variables of the AWS SDK that delta-rs reads, too."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    settings = {
        "fs.s3.impl": _FILE_SYSTEM,
        "fs.s3a.aws.credentials.provider": _CREDENTIALS,
    }
    if region:
        settings["fs.s3a.endpoint.region"] = region
    if endpoint:
        # Stores other than S3 have no host name of each bucket.
        settings |= {"fs.s3a.endpoint": endpoint, "fs.s3a.path.style.access": "true"}
    return {f"spark.hadoop.{name}": value for name, value in settings.items()}


def add_log_store(session: SparkSession) -> Any:
    """Compile the log store in the JVM of the driver, which commits; return the class.

    Raises:
        Py4JError: the class loader takes no more classes.
    """
    jvm: Any = session.sparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_LOG_STORE)
    except Py4JJavaError:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        source = files("streaming.run").joinpath("ConditionalLogStore.java")
        compiler.cook(source.read_text(encoding="utf-8"))
        with TemporaryDirectory() as folder:
            file = Path(folder, *_LOG_STORE.split(".")).with_suffix(".class")
            file.parent.mkdir()
            file.write_bytes(compiler.getBytecodes()[_LOG_STORE])
            loader.addURL(jvm.java.net.URL(f"{Path(folder).as_uri()}/"))
            loader.loadClass(_LOG_STORE)
    return jvm.coordinator_state.ConditionalLogStore


def unsafe_commits(tables: str, session: SparkSession) -> str | None:
    """Why a commit of Delta on Spark could replace that of another process; None if it cannot.

    To ask the store, it creates an object below the tables twice, and deletes it.
    """
    context: Any = session.sparkContext
    setting = f"spark.delta.logStore.{urlsplit(tables).scheme}.impl"
    if context.getConf().get(setting) != _LOG_STORE:
        return f"the configuration of the session does not set {setting} to {_LOG_STORE}"
    try:
        log_store = add_log_store(session)
        configuration = context._jsc.hadoopConfiguration()
        path = context._jvm.org.apache.hadoop.fs.Path(tables, f"_conditional_write-{uuid4().hex}")
        log_store.create(path, b"first", configuration)
        try:
            log_store.create(path, b"second", configuration)
        except Py4JJavaError as error:
            reasons = [*java_reasons(error.java_exception)]
            # Another error says nothing about conditional writes.
            if any(_REFUSED in reason for reason in reasons):
                return None
            raise
        finally:
            path.getFileSystem(configuration).delete(path, False)
    except Py4JJavaError as error:
        return next(iter(java_reasons(error.java_exception)))
    except Py4JError as error:
        return first_line(error)
    return "the store replaces an object that it was told to create only if there is none"
