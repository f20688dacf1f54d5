"""The command over stdio and over HTTP: the protocol, access, and how it ends."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import requests

from streaming.agents.http import serving_agents
from streaming.agents.server import opened_server
from streaming.http.access import Access
from tests.support.clients.agent import Agent, connected, with_token
from tests.support.clients.command_line import call
from tests.support.clients.installed_command import command_of, run_command
from tests.support.tables.dashboard_tables import DashboardTables

TOKEN = "s3cr3t-of-16-characters"  # noqa: S105 - of these tests
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - of these tests
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
POST = b"POST /mcp HTTP/1.1\r\n"
ACCEPT = {"Accept": "application/json, text/event-stream"}


def post(address: str, **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.post(address, json=LIST, headers={**ACCEPT, **named}, timeout=30)


@contextmanager
def served(tables: DashboardTables, host: str = "127.0.0.1", **access: Any) -> Iterator[str]:
    """The address of a server in this process."""
    with (
        opened_server({"prod": tables.folder}) as agents,
        serving_agents(agents, Access(host, **access), 0) as address,
    ):
        yield address.replace(EVERY_ADDRESS, "127.0.0.1")


def require_an_answer(agent: Agent, tables: DashboardTables) -> None:
    at = tables.after.isoformat()
    assert agent.call("find_groups", at=at)["statuses"]["REWIND"] == 1
    assert agent.call("sql", query="SELECT count(*) FROM groups")["rows"] == [[122]]
    assert "unknown group x" in agent.refused("explain_group", group="x")
    assert "docs://ids" in agent.resources()


def test_on_stdio_it_ends_with_its_input_and_prints_nothing_else(tables: DashboardTables) -> None:
    done = run_command("mcp", "--tables", tables.folder, "--verbose")
    assert (done.returncode, done.stdout) == (0, "")


def place_of(address: str) -> tuple[str, int]:
    return "127.0.0.1", int(address.rpartition(":")[2].partition("/")[0])


@pytest.mark.long
def test_over_http_it_ends_with_ctrl_c(tables: DashboardTables) -> None:
    command = command_of("mcp", "--tables", tables.folder, "--port", "0")
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            assert process.stdout is not None
            (address,) = re.findall(r"http://127\.0\.0\.1:\d+/mcp", process.stderr.readline())
            for mode in ("auto", "legacy"):
                with connected(address, mode=mode) as agent:
                    require_an_answer(agent, tables)
            # An open connection does not hold it up.
            with socket.create_connection(place_of(address), timeout=30) as client:
                client.sendall(POST)
                process.send_signal(signal.SIGINT)
                assert process.wait(30) == 0
            assert (process.stdout.read(), process.stderr.read()) == ("", "")
        finally:
            process.kill()


def test_only_own_names_or_a_proxy_and_no_web_pages(tables: DashboardTables) -> None:
    with served(tables, allowed_hosts=("kafka.example",)) as address:
        assert post(address).status_code == 200
        assert post(address, Host="kafka.example:80").status_code == 200
        refused = post(address, Host="evil.example")
        assert refused.status_code == 403
        assert refused.text.startswith("Host evil.example is not allowed. Use localhost")
        for site in ({"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "same-site"}):
            assert post(address, **site).status_code == 403
        assert post(address, Origin=address.removesuffix("/mcp")).status_code == 200
    with served(tables, EVERY_ADDRESS, auth_header="X-User") as address:
        assert post(address).status_code == 403
        assert post(address, X_User="me").status_code == 200


def test_large_bodies_and_streams_of_messages_are_refused(tables: DashboardTables) -> None:
    with served(tables) as address:
        padded = {**LIST, "params": {"padding": "x" * (1 << 20)}}
        refused = requests.post(address, json=padded, headers=ACCEPT, timeout=30)
        assert refused.status_code == 413
        assert refused.text == "A request has at most 1048576 bytes.\n"
        chunks = (bytes(1 << 16) for _ in range(17))
        refused = requests.post(address, data=chunks, headers=ACCEPT, timeout=30)
        assert refused.status_code == 413
        refused = requests.get(address, headers={"Accept": "text/event-stream"}, timeout=30)
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_elsewhere_it_asks_for_the_token(tables: DashboardTables) -> None:
    with served(tables, EVERY_ADDRESS, token=TOKEN) as address:
        assert post(address).status_code == 401
        assert post(address, Authorization=f"Bearer {TOKEN}").status_code == 200
        with connected(with_token(address, TOKEN)) as agent:
            require_an_answer(agent, tables)
        assert post(address, Authorization="Bearer wrong").status_code == 401


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--port", "0", "--host", EVERY_ADDRESS], "could read the tables: set a token"),
        (["--port", "0", "--token", TOKEN], "--token on the command line is visible"),
        (["--host", "192.0.2.1"], "--host works only with HTTP: add --port"),
    ],
)
def test_it_refuses_to_start_in_one_line(
    tables: DashboardTables, options: list[str], error: str
) -> None:
    result = call("mcp", "--tables", tables.folder, *options, exit_code=2)
    (line,) = result.stderr.splitlines()
    assert error in line
    assert result.stdout == ""
