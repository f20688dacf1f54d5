"""The clusters that tools answer for: their tables as of a moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streaming.errors import ConfigurationError, did_you_mean
from streaming.served.snapshot import ServedSnapshot
from streaming.tables.as_of import parse_as_of
from streaming.tables.clock import utc_now
from streaming.tables.durations import parse_duration
from streaming.tables.moments import CLOCKS_DIFFER
from streaming.tables.reader import TableReader
from streaming.views.sql.processes import SqlProcesses


@dataclass(frozen=True, slots=True)
class OpenedCluster:
    """The tables of a cluster as of a moment."""

    name: str
    snapshot: ServedSnapshot

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that every answer has."""
        reader, notices = self.snapshot.reader, [self.snapshot.notice]
        if reader.rebuilt_from is not None:
            notices.append(f"The tables are {reader.rebuilt_from}.")
        notice = " ".join(filter(None, notices)) or None
        return {"cluster": self.name, "at": self.snapshot.at, "notice": notice}

    def begin(self, within: str) -> datetime:
        """The moment that is a duration before that of the tables.

        Raises:
            ConfigurationError: the text is not a duration.
        """
        try:
            return self.snapshot.at - parse_duration(within)
        except (ValueError, OverflowError) as error:
            raise ConfigurationError(f"within: {error}") from error


@dataclass(frozen=True, slots=True)
class Clusters:
    """The tables folders by the name of the cluster, and the processes that run SQL."""

    folders: Mapping[str, str]
    queries: SqlProcesses

    def opened(self, cluster: str, at: str) -> OpenedCluster:
        """The tables of a cluster at a moment, by default the newest ones.

        Raises:
            ConfigurationError: there is no such cluster, or the tables cannot be read as of the
                moment.
        """
        name = self._name(cluster)
        moment = parse_as_of(at) if at.strip() else None
        if isinstance(moment, datetime) and moment > utc_now() + CLOCKS_DIFFER:
            raise ConfigurationError(f"at: {moment.isoformat()} is in the future")
        return OpenedCluster(name, ServedSnapshot(TableReader(self.folders[name], as_of=moment)))

    def _name(self, cluster: str) -> str:
        names = ", ".join(self.folders)
        if cluster in self.folders:
            return cluster
        if cluster:
            hint = did_you_mean(cluster, self.folders) or f"; the clusters are {names}"
            raise ConfigurationError(f"cluster: there is no cluster {cluster}{hint}")
        if len(self.folders) > 1:
            raise ConfigurationError(f"cluster: name one of {names}")
        return next(iter(self.folders))
