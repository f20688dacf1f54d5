"""Operations: the questions that the HTTP API and the tools of agents answer.

An operation is a function from its parameters, a class, to its answer, another class. It has an
address of the API, a tool, or both. The classes check requests and answers; the OpenAPI description
and the schemas of the tools are made from them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from inspect import cleandoc
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from streaming.api.answers import Answer
from streaming.api.cursors import page_of
from streaming.errors import ConfigurationError, did_you_mean
from streaming.served.cluster import Cluster
from streaming.served.snapshot import ServedSnapshot
from streaming.tables.as_of import AsOf, parse_time
from streaming.tables.durations import parse_duration
from streaming.tables.reader import TableReader
from streaming.views.list_query import ListQuery
from streaming.views.sql.processes import SqlProcesses
from streaming.views.unknown_group import unknown_group

A = TypeVar("A", bound=Answer)
Q = TypeVar("Q", bound="ClusterQuery")

Limit = Annotated[
    int, Field(ge=1, le=100, description="The greatest number of rows of each list in the answer.")
]
Within = Annotated[
    str, Field(description="The period to search, which ends at `at`: 30m, 1h or 2d, for example.")
]
OptionalGroup = Annotated[str, Field(description="A group id; empty for all groups.")]


class ClusterQuery(BaseModel):
    """The parameters of every operation."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    cluster: str = ""
    """Name of the cluster. Required if the server has several clusters."""
    at: Annotated[
        str,
        Field(
            description="A past moment, in UTC unless it has a zone: 2026-11-21T03:14:00Z, 5m, "
            "03:14, yesterday 14:00. Empty for now."
        ),
    ] = ""

    @property
    def is_costly(self) -> bool:
        """Whether the answer takes long: a past moment is computed anew."""
        return bool(self.at)


class GroupQuery(ClusterQuery):
    """The parameters of operations about one group."""

    group: str
    """Group id."""


class PagedQuery(ClusterQuery):
    """The parameters of operations with pages."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    """Maximum number of items of a page."""
    cursor: str = ""
    """The next_cursor of the previous page; empty for the first page."""


class Shown(NamedTuple):
    """The snapshot that a request asks for."""

    clusters: Clusters
    cluster: str
    snapshot: ServedSnapshot

    @property
    def at(self) -> datetime:
        """The moment of the answer."""
        return self.snapshot.at

    @property
    def reader(self) -> TableReader:
        """The tables of the snapshot."""
        return self.snapshot.reader

    def answer(self, answer: type[A], **fields: Any) -> A:
        """An answer about this snapshot."""
        notices = [self.snapshot.notice]
        if self.clusters.names_rebuilt and self.reader.rebuilt_from is not None:
            notices.append(f"The tables are {self.reader.rebuilt_from}.")
        notice = " ".join(filter(None, notices)) or None
        return answer.model_validate(
            {**fields, "cluster": self.cluster, "at": self.at, "notice": notice}
        )

    def page(
        self,
        answer: type[A],
        query: PagedQuery,
        rows: ListQuery,
        **fields: Any,
    ) -> A:
        """The page of a list for which a request asks."""
        page = page_of(self.snapshot, rows, query.cursor, query.limit)
        return self.answer(answer, **page, **fields)

    def begin(self, within: str) -> datetime:
        """The begin of a period that ends at the moment of the answer.

        Raises:
            ConfigurationError: the text is not a duration.
        """
        try:
            return self.at - parse_duration(within)
        except (ValueError, OverflowError) as error:
            raise ConfigurationError(f"within: {error}") from error

    def require_group(self, group_id: str) -> None:
        """Refuse an unknown group.

        Raises:
            HTTPException: 404, the snapshot has no such group; the text names similar ones.
        """
        reason = unknown_group(
            self.reader,
            group_id,
            all_groups=self.clusters.all_groups,
            events=self.clusters.events.format(group=group_id, quoted=quote(group_id, safe="")),
        )
        if reason is not None:
            raise HTTPException(404, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """The clusters of a server by name, and the differences between the API and the tools.

    Args:
        by_name: the clusters.
        parse_at: reads the parameter `at`.
        all_groups: the way to all groups, for the text about an unknown one.
        events: the way to the events of a `{group}`, or of its `{quoted}` id.
        names_rebuilt: whether `notice` says that the tables of a past moment are rebuilt.
        queries: the processes that run SQL; None if no operation of the server does.
    """

    by_name: Mapping[str, Cluster]
    parse_at: Callable[[str], AsOf] = parse_time
    all_groups: str = "/api/v1/groups"
    events: str = "/api/v1/events?group={quoted}"
    names_rebuilt: bool = False
    queries: SqlProcesses | None = None

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

    def moment(self, query: ClusterQuery) -> AsOf | None:
        """The past moment that a request names; None for now.

        Raises:
            ConfigurationError: `at` is not a time.
        """
        return self.parse_at(query.at) if query.at.strip() else None

    def snapshot(self, query: ClusterQuery) -> Shown:
        """All groups of the cluster that a request names, computed at most once in two seconds."""
        cluster = self.named(query.cluster)
        return Shown(self, cluster.name, cluster.snapshot(self.moment(query)))

    def opened(self, query: ClusterQuery, at: datetime | None = None) -> Shown:
        """The tables of the cluster that a request names, without computed views.

        `at` replaces the moment that the request names.
        """
        cluster = self.named(query.cluster)
        return Shown(self, cluster.name, cluster.opened(at or self.moment(query)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A question with its parameters and its answer; see `operation`."""

    function: Callable[[Clusters, Any], BaseModel]
    query: type[ClusterQuery]
    """The class of the parameters."""
    answer: type[BaseModel]
    """The class of the answer."""
    path: str | None
    tool: str | None
    is_costly: bool

    @property
    def name(self) -> str:
        """The operation id of the API."""
        return self.function.__name__

    @property
    def description(self) -> str:
        """The answer in words: one line, and maybe more."""
        return cleandoc(self.function.__doc__ or "")

    def query_of(self, arguments: Mapping[str, Any]) -> ClusterQuery:
        """The parameters of a request.

        Raises:
            ConfigurationError: a parameter is unknown, missing, or has a wrong value.
        """
        try:
            return self.query.model_validate(arguments)
        except ValidationError as error:
            faults = dict.fromkeys(self._fault(detail) for detail in error.errors())
            raise ConfigurationError("; ".join(faults)) from None

    def _fault(self, detail: Mapping[str, Any]) -> str:
        name = str(detail["loc"][0])
        if detail["type"] == "extra_forbidden":
            return f"unknown parameter {name}{did_you_mean(name, list(self.query.model_fields))}"
        return f"{name}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"


def operation(
    path: str | None = None, *, tool: str | None = None, is_costly: bool = False
) -> Callable[[Callable[[Clusters, Q], BaseModel]], Operation]:
    """Make an operation of a function. Its docstring and its types describe it.

    Args:
        path: the address below `/api/v1`; parameters in braces are fields of the query.
        tool: the name of the tool of agents.
        is_costly: whether the answer reads much history; the API computes few of them at once.
    """

    def make(function: Callable[[Clusters, Q], BaseModel]) -> Operation:
        types = get_type_hints(function)
        return Operation(
            function=function,
            query=types["query"],
            answer=types["return"],
            path=path,
            tool=tool,
            is_costly=is_costly,
        )

    return make
