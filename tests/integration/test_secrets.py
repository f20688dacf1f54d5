"""A secret is nowhere to be seen while `run` logs in with it, and nowhere to be found behind it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
import requests
from kafka.structs import OffsetAndMetadata, TopicPartition

from coordinator_state.records.internal_topics import OFFSETS_TOPIC
from streaming.local.broker.configuration import HOST
from streaming.tables.reader import TableReader
from tests.support.brokers.commits import admin_of
from tests.support.brokers.secured_broker import READ_LOG, TOKEN_USER, SecuredBroker
from tests.support.brokers.token_endpoint import (
    BY_CLIENT_CREDENTIALS,
    CLIENT_SECRET,
    token_endpoint,
    unsecured_token,
)
from tests.support.clients.installed_command import run_command
from tests.support.eventually import Eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

# And the first bytes of every token that the endpoint gives.
SECRETS: Final = (CLIENT_SECRET.encode(), unsecured_token("").encode()[:20])
VARIABLE: Final = b"COORDINATOR_STATE_KAFKA_SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET"

# `run` as it is, but with Spark's pages and everything logged.
PROGRAM: Final = """
import logging
from streaming.run import session
session._SETTINGS |= {"spark.ui.enabled": "true", "spark.ui.port": "0"}
for name in ("py4j", "kafka", "urllib3", "requests"):
    logging.getLogger(name).setLevel(logging.DEBUG)
from streaming.cli.main import main
main()
"""
LOG4J: Final = """
rootLogger.level = info
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = info
logger.streaming.name = org.apache.spark.sql.execution.streaming
logger.streaming.level = debug
logger.python.name = org.apache.spark.api.python
logger.python.level = debug
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c: %m%n%ex
"""
SPARK_DEFAULTS: Final = """
spark.eventLog.enabled   true
spark.eventLog.compress  false
spark.eventLog.dir       {folder}/events
spark.local.dir          {folder}/local
spark.sql.warehouse.dir  {folder}/warehouse
"""
PAGES: Final = (
    *("environment/", "SQL/", "StreamingQuery/", "jobs/", "stages/", "executors/"),
    *("api/v1/applications/{app}/environment", "api/v1/applications/{app}/sql?details=true"),
    *("api/v1/applications/{app}/jobs", "api/v1/applications/{app}/stages?details=true"),
)
_LINK: Final = re.compile(rb"/(SQL/execution/\?id=\d+|StreamingQuery/statistics/?\?id=[\w-]+)")

Seen = Mapping[str, bytes]


def where(needle: bytes, seen: Seen) -> list[str]:
    """The places that hold some bytes."""
    return [place for place, content in seen.items() if needle in content]


def test_secrets_are_seen_nowhere(
    secured_broker: SecuredBroker, tmp_path: Path, eventually: Eventually
) -> None:
    config, folder = tmp_path / "config", tmp_path / "run"
    log = folder / "run.log"
    for path in (config, folder / "events"):
        path.mkdir(parents=True)
    (config / "log4j2.properties").write_text(LOG4J)
    (config / "spark-defaults.conf").write_text(SPARK_DEFAULTS.format(folder=folder))
    with (
        token_endpoint() as endpoint,
        secured_broker.allowing(TOKEN_USER, READ_LOG),
        admin_of(secured_broker.broker) as admin,
    ):
        admin.alter_group_offsets(
            "secretive", {TopicPartition(OFFSETS_TOPIC, 0): OffsetAndMetadata(1, "", -1)}
        )
        # Said outright in a file, which is the way most easily spilt.
        settings = secured_broker.oauth(endpoint.url) | BY_CLIENT_CREDENTIALS
        lines = (f"{json.dumps(name)} = {json.dumps(text)}" for name, text in settings.items())
        (config / "run.toml").write_text("\n".join(["[kafka]", *lines]))
        arguments = (
            *("--bootstrap-servers", secured_broker.tls_address, "--verbose", "--silent"),
            *("--tables", str(folder / "tables"), "--checkpoint", str(folder / "checkpoint")),
            *("--config", str(config / "run.toml")),
        )
        with log.open("wb") as output:
            run = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "run", *arguments],
                stdout=output,
                stderr=output,
                env=os.environ | {"SPARK_CONF_DIR": str(config)},
                cwd=folder,
            )
        try:
            eventually(lambda: b"micro-batch 0:" in log.read_bytes() or run.poll(), 240)
            assert run.poll() is None, log.read_text()[-2_000:]
            command_lines = _command_lines()
            pages = _pages(log)
            run.send_signal(signal.SIGINT)
            assert run.wait(120) == 0
        finally:
            run.kill()
            run.wait()
        (config / "run.toml").write_text(
            (config / "run.toml").read_text().replace(CLIENT_SECRET, f"not-{CLIENT_SECRET}")
        )
        refused = run_command("run", *arguments)
    assert refused.returncode == 2
    assert "refuses client 'materializer' (401, invalid_client)" in refused.stderr

    files = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    tables = TableReader(str(folder / "tables"))
    rows = {name: str(tables.read(name).to_pylist()).encode() for name in tables.table_versions}
    seen = {**command_lines, **pages, **files, **rows, "refused": refused.stderr.encode()}
    for secret in SECRETS:
        assert where(secret, seen) == []

    # What is no secret is found in each of these kinds of places, so the search is one.
    assert where(secured_broker.tls_address.encode(), command_lines)
    assert where(b"secretive", rows)
    named = where(b"coordinator-state", pages)
    assert {"environment/", "StreamingQuery/"} <= set(named)
    assert any(page.startswith("api/") for page in named)
    assert str(log) in where(VARIABLE, files)
    assert str(log) in where(b"SaslHandshakeRequest", files)
    assert "events" in {
        Path(path).parent.parent.name for path in where(b"coordinator-state", files)
    }
    assert where(b"topic_id", {path: c for path, c in files.items() if "/checkpoint/" in path})


def _command_lines() -> Seen:
    """What `ps` shows of every process of this machine."""
    command_lines = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            command_lines[str(path)] = path.read_bytes()
    return command_lines


def _pages(log: Path) -> Seen:
    """Spark's pages, those that they link to, and what its REST interface answers."""
    (port,) = re.findall(r"service 'SparkUI' on port (\d+)", log.read_text())
    base = f"http://{HOST}:{port}"
    (application,) = json.loads(_get(f"{base}/api/v1/applications"))
    pages = {page: _get(f"{base}/{page.format(app=application['id'])}") for page in PAGES}
    for page in list(pages):
        for link in _LINK.findall(pages[page]):
            pages[link.decode()] = _get(f"{base}/{link.decode()}")
    assert any(link.startswith("StreamingQuery/statistics") for link in pages)
    return pages


def _get(address: str) -> bytes:
    answer = requests.get(address, timeout=60)
    answer.raise_for_status()
    return answer.content
