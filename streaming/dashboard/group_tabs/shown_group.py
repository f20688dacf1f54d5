"""The group of a page, as its tabs need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator_state.insight.group_status import HEALTHY
from coordinator_state.records.member_json import CONNECT
from coordinator_state.replay.groups import EXTERNAL, SHARE, STREAMS
from streaming.dashboard.period import Period, period_of
from streaming.dashboard.request import request
from streaming.served.snapshot import ServedSnapshot

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGroup:
    """A group at the moment of the page.

    `status` is its row of the list of groups, None if it does not exist at this moment. `details`
    are columns of `groups`, None if the group is known only from its offsets. `period` is that of
    the address, None if the address names none.
    """

    group_id: str
    snapshot: ServedSnapshot
    status: Row | None
    details: Row | None
    period: Period | None

    @property
    def exists(self) -> bool:
        """Whether the group exists at this moment."""
        return self.status is not None

    @property
    def group_type(self) -> str | None:
        """The type of the group, None if it does not exist."""
        return None if self.status is None else self.status["group_type"]

    @property
    def is_share(self) -> bool:
        """Whether it is a share group, which commits no offsets."""
        return self.group_type == SHARE

    @property
    def is_streams(self) -> bool:
        """Whether its members have tasks."""
        return self.group_type == STREAMS

    @property
    def is_external(self) -> bool:
        """Whether its offsets are outside Kafka, so that it has no members and no records."""
        return self.group_type == EXTERNAL

    @property
    def is_connect(self) -> bool:
        """Whether its members are workers of Kafka Connect."""
        return self.details is not None and self.details["protocol_type"] == CONNECT

    @property
    def connector(self) -> str | None:
        """The sink connector that consumes as this group, by the name that Kafka Connect gives."""
        if self.is_connect or not self.group_id.startswith(SINK_PREFIX):
            return None
        return self.group_id.removeprefix(SINK_PREFIX) or None

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong with the group."""
        return self.status is not None and self.status["status"] in HEALTHY


SINK_PREFIX = "connect-"
"""The group id of a sink connector is this and its name, unless the connector overrides it.

Source: connect/runtime/src/main/java/org/apache/kafka/connect/util/SinkUtils.java at 4.4.0."""


def named_period(snapshot: ServedSnapshot) -> Period | None:
    """The period of the address; None if it names none.

    Raises:
        ConfigurationError: a limit is not a time, or the period does not end after its begin.
    """
    is_named = request.query_params.get("span") or request.query_params.get("since")
    return period_of(snapshot.reader.moment) if is_named else None
