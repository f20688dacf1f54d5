"""A scripted agent: a client of the Model Context Protocol, called without `async`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent, TextResourceContents, Tool


class Agent:
    """Calls tools of a server and reads its resources."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal, self._client = portal, client

    @property
    def instructions(self) -> str:
        return self._client.instructions or ""

    def tools(self) -> dict[str, Tool]:
        return {tool.name: tool for tool in self._portal.call(self._client.list_tools).tools}

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of an answer."""
        result = self._result(tool, arguments)
        assert not result.is_error, _text(result)
        assert isinstance(result.structured_content, dict)
        return result.structured_content

    def refused(self, tool: str, **arguments: Any) -> str:
        """The text of an error."""
        result = self._result(tool, arguments)
        assert result.is_error, result.structured_content
        return _text(result)

    def resources(self) -> list[str]:
        return [
            resource.uri for resource in self._portal.call(self._client.list_resources).resources
        ]

    def read(self, uri: str) -> str:
        (content,) = self._portal.call(self._client.read_resource, uri).contents
        assert isinstance(content, TextResourceContents)
        return content.text

    def _result(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        return self._portal.call(partial(self._client.call_tool, tool, arguments))


@contextmanager
def connected(server: Any, **options: Any) -> Iterator[Agent]:
    """An agent of a server: one of this process, a command, or an address."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(Client(server, **options)) as client,
    ):
        yield Agent(portal, client)


@asynccontextmanager
async def with_token(address: str, token: str) -> AsyncIterator[Any]:
    """The transport to a server that asks for a token, as `connected` takes it."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        streamable_http_client(address, http_client=http) as streams,
    ):
        yield streams


def is_part(shown: Any, answer: Any, *, has_whole_lists: bool = False) -> bool:
    """Whether an example is an answer that lacks some fields, and perhaps ends of lists."""
    if isinstance(shown, dict):
        if not shown.keys() <= answer.keys():
            return False
        parts = [(shown[name], answer[name]) for name in shown]
    elif isinstance(shown, list):
        if len(shown) > len(answer) or (has_whole_lists and len(shown) < len(answer)):
            return False
        parts = list(zip(shown, answer, strict=False))
    else:
        return bool(shown == answer)
    return all(is_part(*part, has_whole_lists=has_whole_lists) for part in parts)


def _text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
