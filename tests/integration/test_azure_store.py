"""Tables in Azure's Blob Storage, emulated by Azurite (npm's `azurite`), if it is on the PATH.

Azurite does not have the API of Data Lake Storage, with which Hadoop's ABFS works. So only delta-rs
can use it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path

import pyarrow as pa
import pytest
import requests
from deltalake import DeltaTable, write_deltalake

from coordinator_state.model.plain_commits import PlainCommits
from streaming.local.broker.configuration import free_port
from streaming.tables.reader import TableReader
from streaming.verify.verify import verify_cluster
from tests.support.brokers.fresh_broker import FreshBroker
from tests.support.clients.installed_command import run_command
from tests.support.eventually import wait_until

AZURITE = shutil.which("azurite-blob")
# The known account of every Azurite.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
STORE = f"abfss://bucket@{ACCOUNT}.dfs.core.windows.net"
COMMITS, KEYS = 2_000, 200
WRITERS, APPENDS = 3, 20

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(AZURITE is None, reason="there is no azurite-blob on the PATH"),
]


def create_container(port: int, name: str) -> None:
    """Create a container, by a request with the signature of a shared key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    lines = [f"{header}:{value}" for header, value in headers.items()]
    signed = ["PUT", *[""] * 11, *lines, f"/{ACCOUNT}/{ACCOUNT}/{name}", "restype:container"]
    mac = hmac.new(base64.b64decode(KEY), "\n".join(signed).encode(), hashlib.sha256)
    signature = base64.b64encode(mac.digest()).decode()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{signature}"
    address = f"http://127.0.0.1:{port}/{ACCOUNT}/{name}?restype=container"
    requests.put(address, headers=headers, timeout=10).raise_for_status()


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An Azurite with an empty container, known to delta-rs by the environment."""
    assert AZURITE is not None
    port = free_port()
    options = ("--blobPort", str(port), "--inMemoryPersistence", "--silent")
    with subprocess.Popen([AZURITE, *options, "--skipApiVersionCheck"]) as server:
        try:
            wait_until(lambda: is_listening(port))
            create_container(port, "bucket")
            for name, value in (("USE_EMULATOR", "true"), ("ACCOUNT_NAME", ACCOUNT)):
                monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)
            monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
            monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
            monkeypatch.setenv("AZURITE_BLOB_STORAGE_URL", f"http://127.0.0.1:{port}")
            yield
        finally:
            server.terminate()


@pytest.mark.usefixtures("azure")
def test_tables_in_azure_equal_the_broker_after_a_restart(
    fresh_broker: FreshBroker, tmp_path: Path
) -> None:
    broker = fresh_broker()
    broker.create_offsets_topic()
    from_ms = time.time_ns() // 1_000_000 - 3 * COMMITS
    tables = f"{STORE}/tables"
    run = [
        *("run", "--bootstrap-servers", broker.bootstrap_servers, "--available-now"),
        *("--tables", tables, "--checkpoint", str(tmp_path), "--engine", "driver"),
    ]
    for count in (COMMITS, 2 * COMMITS):
        broker.load_logs(PlainCommits(count=count, key_count=KEYS, from_ms=from_ms).logs())
        broker.wait_until_loaded()
        ran = run_command(*run)
        assert ran.returncode == 0, ran.stderr
        assert f"micro-batch 0: {COMMITS} records read" in ran.stderr
        assert verify_cluster(broker.bootstrap_servers, tables).is_equal
    assert TableReader(tables).read("group_offsets").num_rows == KEYS


@pytest.mark.usefixtures("azure")
def test_no_commit_in_azure_replaces_another() -> None:
    address = f"{STORE}/appends"

    def append(first: int) -> None:
        for number in range(first, first + APPENDS):
            write_deltalake(address, pa.table({"id": [number]}), mode="append")

    append(0)
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(append, range(100, 100 * WRITERS + 100, 100)))
    ids = DeltaTable(address).to_pyarrow_table()["id"].to_pylist()
    assert len(ids) == len(set(ids)) == (WRITERS + 1) * APPENDS
