"""Whom HTTP endpoints answer to: nobody who uses a name that a site could have."""

from __future__ import annotations

import socket
from datetime import timedelta

import pytest
from flask import Flask

from streaming.dashboard.app import create_app
from streaming.errors import ConfigurationError
from streaming.http.access import Access
from streaming.http.server import serving
from streaming.run.monitoring import endpoints
from streaming.run.monitoring.high_watermarks import HighWatermarks
from streaming.run.monitoring.run_monitor import RunMonitor

TOKEN = "0123456789abcdef"  # noqa: S105 - of these tests
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - what is listened on by many
OWN = (
    *("localhost", "localhost:8050", "LocalHost", "127.0.0.1:8050", "[::1]:8050"),
    # A pod's own address, and that of a machine that publishes a container's port.
    *("10.0.0.7:8050", "[fd00::7]"),
)
OTHERS = (
    *("evil.example", "evil.example:8050", "127.0.0.1.evil.example", "localhost.evil.example"),
    *("", "[", "127.1", "0x7f000001", "kafka.example"),
)


def page(*allowed_hosts: str, **access: str) -> Flask:
    """The page of a cluster without tables: their pages have the status 400."""
    return create_app({"prod": "missing"}, access=Access(allowed_hosts=allowed_hosts, **access))


def monitor(host: str) -> Flask:
    ends = HighWatermarks(lambda: {}, timedelta(seconds=10))
    return endpoints.create_app(RunMonitor(ends, timedelta(minutes=1)), host)


def status(app: Flask, path: str, host: str) -> int:
    return app.test_client().get(path, headers={"Host": host}, buffered=True).status_code


@pytest.mark.parametrize("path", ["/c/prod/", "/login", "/static/page.css"])
@pytest.mark.parametrize("listens_on", ["127.0.0.1", EVERY_ADDRESS])
def test_the_page_answers_to_its_own_names_wherever_it_listens(listens_on: str, path: str) -> None:
    app = page(host=listens_on, token=TOKEN)
    assert {status(app, path, host) for host in OTHERS} == {403}
    assert 403 not in {status(app, path, host) for host in OWN}


def test_a_name_does_not_get_a_session_by_the_token() -> None:
    app = page(host=EVERY_ADDRESS, token=TOKEN)
    for host, expected in (("evil.example", 403), ("localhost", 302)):
        client = app.test_client()
        given = client.post("/login", data={"token": TOKEN}, headers={"Host": host})
        assert given.status_code == expected
        assert ("Set-Cookie" in given.headers) == (host == "localhost")


def test_the_page_answers_to_names_that_it_was_given() -> None:
    app = page("Kafka.example", "other.example", host="page.internal", token=TOKEN)
    for host in ("kafka.example:8050", "other.example", "page.internal", "localhost"):
        assert status(app, "/login", host) == 200
    refused = app.test_client().get("/login", headers={"Host": "evil\u202e.example"})
    assert refused.status_code == 403
    assert "--allowed-host" in refused.text
    assert refused.text.strip().isprintable()


@pytest.mark.parametrize(
    "name", ["https://kafka.example", "kafka.example:8050", "*.example/", "", "a b@c"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a host name"):
        page(name, host="127.0.0.1")


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_a_run_on_this_machine_answers_to_no_other_name(path: str) -> None:
    on_loopback, elsewhere = monitor("127.0.0.1"), monitor(EVERY_ADDRESS)
    assert {status(on_loopback, path, host) for host in OTHERS} == {403}
    assert 403 not in {status(on_loopback, path, host) for host in OWN}
    # Prometheus asks a service by its name.
    assert status(elsewhere, path, "materializer:8000") != 403


def test_a_probe_without_a_name_is_answered() -> None:
    """Browsers always send `Host`; some load balancers do not."""
    with serving(monitor("127.0.0.1")) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as probe:
            probe.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert probe.recv(100).startswith(b"HTTP/1.0 200 OK")
