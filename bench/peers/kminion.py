"""kminion: its configuration for each of its two modes, and a scrape."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from bench.peers.answers import of_kminion
from bench.peers.tool import HOST, NoAnswer, Tool, free_port, get
from coordinator_state.replay.offsets import OffsetKey

_CONFIG = """
kafka:
  brokers: ["{servers}"]
minion:
  consumerGroups:
    scrapeMode: {mode}
exporter:
  host: "{host}"
  port: {port}
"""


class Kminion(Tool):
    """kminion in the mode `offsetsTopic`, which reads the topic as this program does."""

    name = "kminion, offsetsTopic"
    settings = "scrapeMode: offsetsTopic"
    mode: ClassVar[str] = "offsetsTopic"

    def __init__(self, servers: str, folder: Path, groups: Sequence[str], binary: Path) -> None:
        super().__init__(servers, folder, groups)
        self._binary = binary
        self._port = free_port()

    def start(self) -> None:
        """Start it with its configuration file."""
        file = self.folder / "kminion.yaml"
        file.write_text(
            _CONFIG.format(servers=self.servers, mode=self.mode, host=HOST, port=self._port)
        )
        self.launch([str(self._binary)], {**os.environ, "CONFIG_FILEPATH": str(file)})

    def offsets(self) -> Mapping[OffsetKey, int]:
        """A scrape; before kminion is ready it has no offsets."""
        offset_by_key = of_kminion(get(f"http://{HOST}:{self._port}/metrics"))
        if not offset_by_key:
            raise NoAnswer("no lag in the scrape")
        return offset_by_key


class KminionAdmin(Kminion):
    """kminion in its default mode: it asks the brokers at each scrape."""

    name = "kminion, adminApi"
    settings = "scrapeMode: adminApi (the default)"
    mode = "adminApi"
