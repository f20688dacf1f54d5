"""The status of one group at many moments of a time span."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from streaming.errors import ConfigurationError, TablesUnavailable
from streaming.lag.evaluation import Evaluation
from streaming.lag.group_lag import RATE_WINDOWS
from streaming.tables.past import Past
from streaming.tables.reader import TableReader


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """The status of a group at a moment; None if the group did not exist, or is not known then."""

    at: datetime
    status: str | None
    reason: str
    is_known: bool = True


class PastStatuses:
    """The status of a group from `since` to the moment of `newest`; its rows are read once."""

    def __init__(self, newest: TableReader, group_id: str, since: datetime) -> None:
        self._group_ids = [group_id]
        self._past = Past(newest, since=since - RATE_WINDOWS[0], group_ids=self._group_ids)

    def status(self, moment: datetime) -> GroupStatus:
        """The status at a moment.

        Raises:
            TablesUnavailable: the tables cannot be read now.
        """
        newest = self._past.newest
        try:
            reader = newest if moment == newest.moment else self._past.at(moment)
        except TablesUnavailable:
            raise
        except ConfigurationError as error:
            return GroupStatus(moment, None, str(error), is_known=False)
        evaluation = Evaluation.of(reader, at=moment, group_ids=self._group_ids)
        for row in evaluation.group_status().to_pylist():
            return GroupStatus(moment, row["status"], row["reason"])
        return GroupStatus(moment, None, "the group did not exist")
