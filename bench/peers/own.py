"""This program: `run`, read with delta-rs or over HTTP from `metrics`."""

from __future__ import annotations

from collections.abc import Mapping

from bench.live import committed_offsets
from bench.peers.answers import of_metrics
from bench.peers.tool import HOST, NoAnswer, Tool, free_port, get
from bench.processes import cli_command, run_command, run_environment
from coordinator_state.replay.offsets import OffsetKey
from streaming.errors import ConfigurationError


class Tables(Tool):
    """`run` alone; the bench reads the table `group_offsets`."""

    name = "coordinator-state run, tables"
    settings = "defaults"

    def start(self) -> None:
        """Start `run` on new tables."""
        self.launch(run_command(self.servers, self.folder, "--silent"), run_environment())

    def offsets(self) -> Mapping[OffsetKey, int]:
        """The rows of the table."""
        try:
            return committed_offsets(str(self.folder / "tables"))
        except ConfigurationError as error:
            raise NoAnswer(str(error)) from error


class Metrics(Tables):
    """`run` and `metrics` beside it; the bench scrapes."""

    name = "coordinator-state run + metrics"

    def start(self) -> None:
        """Start `run`, and `metrics` as soon as there are tables."""
        super().start()
        self._port: int | None = None

    def offsets(self) -> Mapping[OffsetKey, int]:
        """A scrape."""
        if self._port is None:
            super().offsets()
            self._port = free_port()
            tables = str(self.folder / "tables")
            command = cli_command("metrics", "--tables", tables, "--port", str(self._port))
            self.launch(command, run_environment())
        return of_metrics(get(f"http://{HOST}:{self._port}/metrics"))
