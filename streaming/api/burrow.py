"""The addresses of Burrow's API below `/v3/kafka`, with the answers of Burrow.

Programs that read Burrow can read these instead. Statuses are those of Burrow's rules
(`streaming.lag.burrow_status`). Only groups that commit offsets, and the topics that groups read,
are there.

Source: linkedin/Burrow core/internal/httpserver (kafka.go, structs.go), core/internal/evaluator
(caching.go) and core/protocol at v1.9.5.
"""

from __future__ import annotations

import json
import socket
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from coordinator_state.insight.burrow_rules import INTERVALS, Commit, group_status
from coordinator_state.insight.group_status import Status
from coordinator_state.insight.lag import GONE
from streaming.api.responses import json_response
from streaming.errors import ConfigurationError
from streaming.lag.burrow_status import OFFSET_REFRESH
from streaming.served.cluster import Cluster
from streaming.served.snapshot import Row, ServedSnapshot

UNKNOWN_OFFSET: Final = -1
_TOPIC_REFRESH_S: Final = 60
"""Burrow's default."""


class _NotFound(Exception):
    """There is no such cluster, group or topic; the message is Burrow's."""


class _Asked(NamedTuple):
    """The cluster of a request, and its newest snapshot; None if there is no such cluster."""

    cluster: str
    snapshot: ServedSnapshot | None


def burrow_views(clusters: Mapping[str, Cluster]) -> dict[str, Callable[[Request], Response]]:
    """The views by their path below `/v3`."""
    views: Mapping[str, Callable[..., dict[str, Any]]] = {
        "": _cluster,
        "/topic": _topics,
        "/topic/{topic:path}": _topic,
        "/topic/{topic:path}/consumers": _topic_consumers,
        "/consumer": _consumers,
        "/consumer/{consumer:path}": _consumer,
        "/consumer/{consumer:path}/status": partial(_status, is_whole=False),
        "/consumer/{consumer:path}/lag": partial(_status, is_whole=True),
    }
    return {
        "/kafka": partial(_clusters, clusters),
        **{
            f"/kafka/{{cluster}}{path}": partial(_answered, view, clusters)
            for path, view in views.items()
        },
    }


def _answered(
    view: Callable[..., dict[str, Any]], clusters: Mapping[str, Cluster], request: Request
) -> Response:
    names = {name: unquote(value) for name, value in request.path_params.items()}
    name = names.pop("cluster")
    cluster = clusters.get(name)
    try:
        asked = _Asked(name, None if cluster is None else cluster.snapshot())
        return _answer(request, view(asked, **names))
    except _NotFound as error:
        return _answer(request, {"message": str(error)}, status=404)
    except ConfigurationError as error:
        return _answer(request, {"message": str(error)}, status=500)


def _answer(request: Request, fields: Mapping[str, Any], status: int = 200) -> Response:
    asked = {"url": unquote(request.scope["path"]), "host": socket.gethostname()}
    body = {"error": status != 200, **fields, "request": asked}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    if status == 200 and fields.get("status", {}).get("status") == "NOTFOUND":
        status = 404
    if status != 200:
        return Response(text, status, media_type="application/json")
    return json_response(request, text)


def _clusters(clusters: Mapping[str, Cluster], request: Request) -> Response:
    return _answer(request, {"message": "cluster list returned", "clusters": list(clusters)})


def _cluster(asked: _Asked) -> dict[str, Any]:
    _require(asked, "cluster module not found")
    profile = {"name": "", "client-id": "", "kafka-version": "", "tls": None, "sasl": None}
    module = {
        "class-name": "kafka",
        "servers": [],
        "client-profile": profile,
        "topic-refresh": _TOPIC_REFRESH_S,
        "offset-refresh": OFFSET_REFRESH.seconds,
    }
    return {"message": "cluster module detail returned", "module": module}


def _topics(asked: _Asked) -> dict[str, Any]:
    snapshot = _require(asked, "cluster not found")
    return {"message": "topic list returned", "topics": sorted(snapshot.log_ends)}


def _topic(asked: _Asked, topic: str) -> dict[str, Any]:
    missing = "cluster or topic not found"
    log_ends = _require(asked, missing).log_ends.get(topic)
    if log_ends is None:
        raise _NotFound(missing)
    known = [log_ends.get(partition) for partition in range(max(log_ends) + 1)]
    offsets = [UNKNOWN_OFFSET if end is None else end for end in known]
    return {"message": "topic offsets returned", "offsets": offsets}


def _topic_consumers(asked: _Asked, topic: str) -> dict[str, Any]:
    snapshot = _require(asked, "cluster not found")
    consumers = [
        group
        for group, rows in snapshot.burrow.items()
        if any(row["topic"] == topic for row in _present(rows))
    ]
    return {"message": "consumers of topic returned", "consumers": sorted(consumers)}


def _consumers(asked: _Asked) -> dict[str, Any]:
    snapshot = _require(asked, "cluster not found")
    return {"message": "consumer list returned", "consumers": sorted(snapshot.burrow)}


def _consumer(asked: _Asked, consumer: str) -> dict[str, Any]:
    missing = "cluster or consumer not found"
    snapshot = _require(asked, missing)
    if consumer not in snapshot.burrow:
        raise _NotFound(missing)
    topics: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in _partitions(snapshot, consumer):
        known = [_offset(commit) for commit in row["commits"]]
        offsets = [*[None] * (INTERVALS - len(known)), *known] if known else []
        topics[row["topic"]].append(
            {"offsets": offsets, **_owner(row), "current-lag": row["lag"] or 0}
        )
    return {"message": "consumer detail returned", "topics": topics}


def _status(asked: _Asked, consumer: str, *, is_whole: bool) -> dict[str, Any]:
    """The status of a group; with `is_whole` all partitions, otherwise those that are not OK."""
    message = "consumer status returned"
    snapshot = asked.snapshot
    known = snapshot is not None and consumer in snapshot.burrow
    rows = _partitions(snapshot, consumer) if snapshot is not None and known else []
    partitions = [_partition_status(row) for row in rows]
    complete = sum(partition["complete"] == 1 for partition in partitions)
    shown = [
        partition for partition in partitions if is_whole or partition["status"] != Status.OK.value
    ]
    worst = group_status(Status(partition["status"]) for partition in partitions).value
    status = {
        "cluster": asked.cluster,
        "group": consumer,
        "status": worst if known else "NOTFOUND",
        "complete": _float32(complete / len(partitions)) if partitions else int(not known),
        "partitions": shown,
        "partition_count": len(partitions),
        "maxlag": max(partitions, key=lambda partition: partition["current_lag"], default=None),
        "totallag": sum(partition["current_lag"] for partition in partitions),
    }
    return {"message": message, "status": status}


def _require(asked: _Asked, message: str) -> ServedSnapshot:
    if asked.snapshot is None:
        raise _NotFound(message)
    return asked.snapshot


def _present(rows: Sequence[Row]) -> list[Row]:
    """The rows of topics that exist: Burrow forgets a topic when it is deleted."""
    return [row for row in rows if row["topic_state"] != GONE]


def _partitions(snapshot: ServedSnapshot, group: str) -> list[Row]:
    """The rows of a group, one for each partition of its topics.

    In an answer, the place of a partition in the list is its number. A partition without a commit
    has a row without commits.
    """
    by_topic: dict[str, dict[int, Row]] = defaultdict(dict)
    for row in _present(snapshot.burrow[group]):
        by_topic[row["topic"]][row["partition"]] = row
    return [
        rows.get(partition, {"topic": topic, "partition": partition, **_NO_COMMIT})
        for topic, rows in sorted(by_topic.items())
        for partition in range(max(snapshot.log_ends[topic]) + 1)
    ]


_NO_COMMIT: Final[Row] = {
    **{"commits": [], "lag": 0, "status": Status.OK.value, "client_host": None, "client_id": None},
}


def _partition_status(row: Row) -> dict[str, Any]:
    commits: Sequence[Commit] = row["commits"]
    return {
        "topic": row["topic"],
        "partition": row["partition"],
        **_owner(row),
        "status": row["status"],
        "start": _offset(commits[0]) if commits else None,
        "end": _offset(commits[-1]) if commits else None,
        "current_lag": row["lag"] or 0,
        "complete": _float32(len(commits) / INTERVALS),
    }


def _owner(row: Row) -> dict[str, str]:
    return {"owner": row["client_host"] or "", "client_id": row["client_id"] or ""}


def _offset(commit: Commit) -> dict[str, int | None]:
    at_ms = commit.timestamp_ms
    return {
        "offset": commit.committed_offset,
        "timestamp": at_ms,
        "observedAt": at_ms,
        "lag": commit.lag,
    }


def _float32(value: float) -> float:
    """A number as Go writes a float32."""
    short = float(str(np.float32(value)))
    return int(short) if short.is_integer() else short
