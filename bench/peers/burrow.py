"""Burrow: its configuration, and its HTTP API about consumers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from bench.peers.answers import of_burrow
from bench.peers.tool import HOST, NoAnswer, Tool, free_port, get
from coordinator_state.replay.offsets import OffsetKey

_CONFIG = """
[logging]
level="info"

[client-profile.bench]
client-id="burrow"
kafka-version="{version}"

[cluster.local]
class-name="kafka"
servers=["{servers}"]
client-profile="bench"
topic-refresh=60
offset-refresh=10

[consumer.local]
class-name="kafka"
cluster="local"
servers=["{servers}"]
client-profile="bench"

[storage.default]
class-name="inmemory"

[httpserver.default]
address="{host}:{port}"
"""
_KAFKA_VERSION = "4.0.0"


class Burrow(Tool):
    """Burrow without ZooKeeper and notifiers."""

    name = "Burrow"
    settings = f"kafka-version {_KAFKA_VERSION}; no ZooKeeper, no notifier"

    def __init__(self, servers: str, folder: Path, groups: Sequence[str], binary: Path) -> None:
        super().__init__(servers, folder, groups)
        self._binary = binary
        self._address = ""

    def start(self) -> None:
        """Start it with its configuration file."""
        port = free_port()
        self._address = f"http://{HOST}:{port}/v3/kafka/local/consumer"
        config = _CONFIG.format(servers=self.servers, version=_KAFKA_VERSION, host=HOST, port=port)
        (self.folder / "burrow.toml").write_text(config)
        self.launch([str(self._binary), "--config-dir", str(self.folder)], os.environ)

    def offsets(self) -> Mapping[OffsetKey, int]:
        """The details of all consumers: a request for the list, then one for each."""
        return self._details(json.loads(get(self._address))["consumers"])

    def offsets_of(self, keys: Iterable[OffsetKey]) -> Mapping[OffsetKey, int]:
        """The details of these consumers."""
        return self._details({key.group_id for key in keys})

    def _details(self, groups: Iterable[str]) -> dict[OffsetKey, int]:
        offset_by_key: dict[OffsetKey, int] = {}
        for group in groups:
            try:
                offset_by_key.update(
                    of_burrow(group, get(f"{self._address}/{quote(group, safe='')}"))
                )
            except NoAnswer:  # it is not there any more, or not yet
                continue
        return offset_by_key
