"""Pages and answers of the API as a program reads them, without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import urlencode

from starlette.testclient import TestClient
from starlette.types import ASGIApp

from streaming.api.app import create_app as create_api
from streaming.dashboard.app import create_app as create_page
from streaming.served.cluster import Cluster
from streaming.views.sql.processes import SqlProcesses
from streaming.views.sql.slots import Slots


def client_of(app: ASGIApp) -> TestClient:
    """A client of an application, which follows no redirects."""
    as_is = {"Accept-Encoding": "identity"}
    return TestClient(app, base_url="http://localhost", headers=as_is, follow_redirects=False)


def page_client(**folders: str) -> TestClient:
    """A client of the page of clusters, whose SQL shares a process: starting one takes a second."""
    app = create_page(folders)
    app.state.sql_processes = SqlProcesses(Slots("queries", 2), [*folders.values()], is_reused=True)
    return client_of(app)


def api_client(**folders: str) -> TestClient:
    """A client of the API of clusters."""
    return client_of(create_api({name: Cluster(name, path) for name, path in folders.items()}))


def page_of(client: TestClient, address: str, /, **arguments: str) -> str:
    """A page of the cluster `prod`, without the white space of its template."""
    path = f"/c/prod/{address}"
    if arguments:
        path += f"{'&' if '?' in path else '?'}{urlencode(arguments)}"
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    return " ".join(unescape(answer.text).split())


def json_of(client: TestClient, path: str, status: int = 200, /, **arguments: Any) -> Any:
    """The JSON of an answer that has a status."""
    answer = client.get(path, params=arguments or None)
    assert answer.status_code == status, answer.text[:1_000]
    return answer.json()


def pages_of(client: TestClient, path: str, **arguments: Any) -> Iterator[list[dict[str, Any]]]:
    """The items of each page of a list of the API."""
    cursor: str | None = ""
    while cursor is not None:
        answer = json_of(client, f"/api/v1/{path}", **arguments, cursor=cursor)
        yield answer["items"]
        cursor = answer["next_cursor"]


def text_of(html: str) -> str:
    """The text of a part of a page, without its tags."""
    return " ".join(re.sub("<[^>]*>", " ", html).split())


def part_of(page: str, begin: str, end: str) -> str:
    """The part of a page between two texts."""
    return page[page.index(begin) :].partition(end)[0]


def rows_of(page: str, table: str) -> list[list[str]]:
    """The texts of the cells of a table, row by row.

    `table` begins it: the id of a table, or the `aria-label` of its region.
    """
    body = part_of(page, f'"{table}">', "</table>").partition("<tbody>")[2]
    return [
        [text_of(cell) for cell in re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row)]
        for row in re.findall("<tr[^>]*>(.*?)</tr>", body)
    ]
