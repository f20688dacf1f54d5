"""Endpoints of the API: their parameters, and the way from a request to an answer.

An endpoint declares its parameters and its answer as classes. They check requests and answers, and
the OpenAPI description is made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from streaming.api.fields import described
from streaming.errors import ConfigurationError, did_you_mean
from streaming.served.cluster import Cluster
from streaming.served.snapshot import ServedSnapshot
from streaming.tables.as_of import parse_time
from streaming.views.unknown_group import unknown_group

DEFAULT_LIMIT = 1_000
MAX_LIMIT = 10_000
Q = TypeVar("Q", bound="ClusterQuery")


class ClusterQuery(BaseModel):
    """Parameters of every endpoint."""

    model_config = ConfigDict(extra="forbid")

    cluster: Annotated[
        str, Field(description="Name of the cluster. Required if the server has several clusters.")
    ] = ""
    at: Annotated[
        str,
        Field(
            description="A past moment, in UTC unless it has a zone: 2026-11-21T03:14:00Z, 5m, "
            "03:14, yesterday 14:00. Empty for now."
        ),
    ] = ""

    @property
    def moment(self) -> datetime | None:
        """The past moment; None for now.

        Raises:
            ConfigurationError: `at` is not a time.
        """
        return parse_time(self.at) if self.at else None

    @property
    def is_costly(self) -> bool:
        """Whether the answer takes long: a past moment is computed anew."""
        return bool(self.at)


class PagedQuery(ClusterQuery):
    """Parameters of endpoints with pages."""

    limit: Annotated[
        int, Field(ge=1, le=MAX_LIMIT, description="Maximum number of items of a page.")
    ] = DEFAULT_LIMIT
    cursor: Annotated[
        str, Field(description="The next_cursor of the previous page; empty for the first page.")
    ] = ""


class Answer(BaseModel):
    """The fields of every answer about one cluster."""

    model_config = described()

    cluster: str
    """Name of the cluster."""
    at: datetime
    """Moment of the answer. Ages are measured to it, or to `evaluated_at` where a row has it."""
    notice: str | None
    """Warning that the tables are stale or still loading; null if they are current."""


class Shown(NamedTuple):
    """The cluster and the snapshot that a request asks for."""

    cluster: Cluster
    snapshot: ServedSnapshot

    @property
    def envelope(self) -> dict[str, Any]:
        """The fields of `Answer`."""
        snapshot = self.snapshot
        return {"cluster": self.cluster.name, "at": snapshot.at, "notice": snapshot.notice}

    def require_group(self, group_id: str) -> None:
        """Refuse an unknown group.

        Raises:
            HTTPException: 404, the snapshot has no such group; the text names similar ones.
        """
        reason = unknown_group(
            self.snapshot.reader,
            group_id,
            all_groups="/api/v1/groups",
            events=f"/api/v1/events?group={quote(group_id, safe='')}",
        )
        if reason is not None:
            raise HTTPException(404, reason)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of a server by name."""

    by_name: Mapping[str, Cluster]

    def named(self, name: str) -> Cluster:
        """The cluster with a name; the name may be empty if there is only one.

        Raises:
            ConfigurationError: the name is needed.
            HTTPException: 404, there is no such cluster.
        """
        names = ", ".join(self.by_name)
        if not name and len(self.by_name) > 1:
            raise ConfigurationError(f"cluster: this server has several; name one of {names}")
        cluster = self.by_name.get(name or next(iter(self.by_name)))
        if cluster is None:
            raise HTTPException(404, f"unknown cluster {name}: this server has {names}")
        return cluster

    def snapshot(self, query: ClusterQuery) -> Shown:
        """All groups of the cluster that a request names, computed at most once in two seconds."""
        cluster = self.named(query.cluster)
        return Shown(cluster, cluster.snapshot(query.moment))

    def opened(self, query: ClusterQuery) -> Shown:
        """The tables of the cluster that a request names, without computed views."""
        cluster = self.named(query.cluster)
        return Shown(cluster, cluster.opened(query.moment))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address of the API.

    Args:
        path: the path below `/api/v1`, with parameters in braces.
        view: computes the answer, from the clusters, the parameters (`query`) and those of the
            path. Its name, docstring and types are part of the description.
        is_costly: whether the answer reads much history; few of them are computed at once.
    """

    path: str
    view: Callable[..., BaseModel]
    is_costly: bool = False
    query: type[ClusterQuery] = field(init=False)
    """The class of the parameters."""
    answer: type[BaseModel] = field(init=False)
    """The class of the answer."""

    def __post_init__(self) -> None:
        types = get_type_hints(self.view)
        object.__setattr__(self, "query", types["query"])
        object.__setattr__(self, "answer", types["return"])

    @property
    def name(self) -> str:
        """The operation id."""
        return self.view.__name__

    @property
    def summary(self) -> str:
        """One line about the answer."""
        return (self.view.__doc__ or "").split("\n", 1)[0].rstrip(".")


def query_of(arguments: QueryParams, query: type[Q]) -> Q:
    """The parameters of a request.

    Raises:
        ConfigurationError: a parameter is unknown, given twice, or has a wrong value.
    """
    try:
        return query.model_validate(_given(arguments, query))
    except ValidationError as error:
        raise ConfigurationError("; ".join(_faults(error, query))) from None


def _given(arguments: QueryParams, query: type[ClusterQuery]) -> dict[str, Any]:
    value_by_name: dict[str, Any] = {}
    for name in arguments:
        values = arguments.getlist(name)
        field = query.model_fields.get(name)
        if field is not None and field.default_factory is list:
            value_by_name[name] = values
        elif len(values) > 1:
            raise ConfigurationError(f"{name}: given {len(values)} times")
        else:
            value_by_name[name] = values[0]
    return value_by_name


def _faults(error: ValidationError, query: type[ClusterQuery]) -> list[str]:
    faults = []
    for detail in error.errors():
        name = str(detail["loc"][0])
        if detail["type"] == "extra_forbidden":
            hint = did_you_mean(name, list(query.model_fields))
            faults.append(f"unknown parameter {name}{hint}")
        else:
            faults.append(f"{name}: {detail['msg'][:1].lower()}{detail['msg'][1:]}")
    return faults


def json_response(request: Request, body: str) -> Response:
    """A response with an ETag: a client that sends it back gets 304 while the body is the same."""
    tag = f'"{sha256(body.encode()).hexdigest()[:40]}"'
    headers = {"Cache-Control": "private, no-cache", "ETag": tag}
    kept = request.headers.get("If-None-Match", "").split(",")
    if {tag, "*"}.intersection(kept_tag.strip().removeprefix("W/") for kept_tag in kept):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type="application/json")
