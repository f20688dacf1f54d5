"""`alert send-test`: one test notice to each sink, to see whether it is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from streaming.alerts.alert import Alert, AlertKey, AlertState, Notice, NoticeKind
from streaming.alerts.delivery import DeliveryError
from streaming.alerts.sinks import Sink
from streaming.tables.clock import utc_now

TEST_RULE: Final = "test_notice"
_REASON: Final = "a test by `coordinator-state alert send-test`; nothing is wrong, nothing to do"


class SinkAnswer(NamedTuple):
    """Whether a sink accepted the test notice; `error`, without secrets, is None if it did."""

    sink: str
    is_accepted: bool
    error: str | None


def send_test(sinks: Mapping[str, Sink]) -> Iterator[SinkAnswer]:
    """Send one test notice to each of the sinks, one after the other, in one attempt each.

    It is of the rule `test_notice`, severity `info`, and of a cluster named `test`.
    """
    for name, sink in sinks.items():
        error = None
        try:
            sink.send([_notice()])
        except DeliveryError as failure:
            error = str(failure)
        except Exception as failure:  # noqa: BLE001 - its text may contain secrets of the sink
            error = type(failure).__name__
        yield SinkAnswer(name, error is None, error)


def _notice() -> Notice:
    now = utc_now()
    alert = Alert(
        key=AlertKey(TEST_RULE),
        severity="info",
        state=AlertState.FIRING,
        since=now,
        fired_at=now,
        reason=_REASON,
    )
    return Notice(alert=alert, cluster_id="test", note="", kind=NoticeKind.NEW)
