"""Access to the page, the API and the endpoints of `run`: names, tokens, proxies, other sites.

The clusters have no tables, so an allowed request of a page gets the status 400.
"""

from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp

from streaming.api.app import create_app as create_api
from streaming.dashboard.app import create_app
from streaming.errors import ConfigurationError
from streaming.http import access
from streaming.http.access import Access
from streaming.http.server import serving
from streaming.run.monitoring import endpoints
from streaming.run.monitoring.run_monitor import HighWatermarks, RunMonitor
from streaming.served.cluster import Cluster
from tests.support.browser.html import client_of

TOKEN = "s3cr3t-of-16-characters"  # noqa: S105 - of these tests
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - nothing listens on it here
ALLOWED = 400
OWN = (
    *("localhost", "localhost:8050", "LocalHost", "127.0.0.1:8050", "[::1]:8050"),
    # A pod's own address, and that of a machine that publishes a container's port.
    *("10.0.0.7:8050", "[fd00::7]"),
)
OTHERS = (
    *("evil.example", "evil.example:8050", "127.0.0.1.evil.example", "localhost.evil.example"),
    *("", "[", "127.1", "0x7f000001", "kafka.example"),
)
DESCRIPTION = "/api/v1/openapi.json"
API_ADDRESSES = ("/api/v1/groups", DESCRIPTION, "/api/v1/nope", "/v3/kafka")


@cache
def page(
    host: str = EVERY_ADDRESS, allowed_hosts: tuple[str, ...] = (), **access: Any
) -> Starlette:
    """The page, with the API beside it."""
    rules = Access(host, allowed_hosts=allowed_hosts, **access)
    return create_app({"prod": "missing"}, access=rules)


@cache
def api(host: str = EVERY_ADDRESS, **access: Any) -> Starlette:
    """The API alone."""
    return create_api({"prod": Cluster("prod", "missing")}, access=Access(host, **access))


def monitor(host: str) -> ASGIApp:
    ends = HighWatermarks(lambda: {}, timedelta(seconds=10))
    return endpoints.create_app(RunMonitor(ends, timedelta(minutes=1)), host)


def status(app: ASGIApp, path: str, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return client_of(app).get(path, headers=named).status_code


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({}, "other machines could read the tables: set a token"),
        *(({name: " "}, "is empty") for name in ("token", "auth_header")),
        ({"token": ""}, "is empty"),
        ({"token": "0" * 15}, "has 15 characters and needs at least 16"),
        *(
            ({"token": TOKEN, "allowed_hosts": (name,)}, "is not a host name")
            for name in ("https://kafka.example", "kafka.example:8050", "*.example/", "", "a b@c")
        ),
    ],
)
def test_rules_that_protect_nothing_are_refused(rules: dict[str, Any], error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        page(**rules)
    assert Access("127.0.0.1", token="0" * 16)


@pytest.mark.parametrize("listens_on", ["127.0.0.1", EVERY_ADDRESS])
def test_the_page_answers_to_its_own_names_wherever_it_listens(listens_on: str) -> None:
    client = client_of(page(listens_on, token=TOKEN))
    for path in ("/c/prod/", "/login", "/static/page.css", DESCRIPTION):
        assert {client.get(path, headers={"Host": host}).status_code for host in OTHERS} == {403}
        assert 403 not in {client.get(path, headers={"Host": host}).status_code for host in OWN}
    for host, has_session in (("evil.example", False), ("localhost", True)):
        answer = client.post("/login", data={"token": TOKEN}, headers={"Host": host})
        assert ("Set-Cookie" in answer.headers) is has_session


def test_the_page_answers_to_names_that_it_was_given() -> None:
    app = page("page.internal", ("Kafka.example", "other.example"), token=TOKEN)
    for host in ("kafka.example:8050", "other.example", "page.internal", "localhost"):
        assert status(app, "/login", Host=host) == 200
    refused = client_of(app).get("/login", headers={b"Host": "evil\u202e.example".encode()})
    assert refused.status_code == 403
    assert "--allowed-host" in refused.text
    assert refused.text.strip().isprintable()


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_a_run_on_this_machine_answers_to_no_other_name(path: str) -> None:
    on_loopback, elsewhere = monitor("127.0.0.1"), monitor(EVERY_ADDRESS)
    assert {status(on_loopback, path, Host=host) for host in OTHERS} == {403}
    assert 403 not in {status(on_loopback, path, Host=host) for host in OWN}
    # Prometheus asks a service by its name.
    assert status(elsewhere, path, Host="materializer:8000") != 403


def test_a_probe_without_a_name_is_answered() -> None:
    """Browsers always send `Host`; some load balancers do not."""
    with serving(monitor("127.0.0.1")) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as probe:
            probe.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert probe.recv(100).startswith(b"HTTP/1.1 200 OK")


def test_the_page_asks_for_the_token_once(monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(page(token=TOKEN))
    redirected = client.get("/c/prod/?search=x", headers={"Accept": "text/html"})
    assert redirected.status_code == 302
    for address in ("/c/prod/?at=x", "/c/nope/", "/"):
        refused = client.get(address, headers={"Accept": "application/json"})
        # Nobody learns which clusters exist.
        assert (refused.status_code, "prod" in refused.text) == (401, False)
    # As curl asks, which accepts anything.
    for token, status_code in ((TOKEN, ALLOWED), ("wrong", 401)):
        headers = {"Authorization": f"Bearer {token}", "Accept": "*/*"}
        assert client.get("/c/prod/", headers=headers).status_code == status_code
    login = redirected.headers["Location"]
    assert client.get(login).status_code == 200
    assert "Wrong token." in client.post(login, data={"token": "x"}).text
    signed_in = client.post(login, data={"token": TOKEN})
    assert signed_in.headers["Location"] == "/c/prod/?search=x"
    cookie = signed_in.headers["Set-Cookie"]
    assert [word in cookie for word in ("HttpOnly", "SameSite=lax")] == [True, True]
    assert [word in cookie for word in ("Secure", TOKEN)] == [False, False]
    assert client.get("/c/prod/").status_code == ALLOWED
    assert client.get(DESCRIPTION).status_code == 200
    today = access._today()
    for days, status_code in ((31, 200), (32, 401), (-1, 401)):
        monkeypatch.setattr(access, "_today", lambda days=days: today + days)
        assert client.get(DESCRIPTION).status_code == status_code
    monkeypatch.undo()
    for to in ("//evil.example/", "/%09/evil.example", "/c/%0a", "/c/%5cevil", "x"):
        elsewhere = client.post(f"/login?to={to}", data={"token": TOKEN})
        assert elsewhere.headers["Location"] == "/"
    behind_proxy = client.post(login, data={"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in behind_proxy.headers["Set-Cookie"]


@pytest.mark.parametrize("create", [api, page], ids=["alone", "beside the page"])
def test_the_api_needs_a_token_in_each_request(create: Callable[..., Starlette]) -> None:
    client = client_of(create(token=TOKEN))
    wrong = (None, "Bearer wrong", basic("me", "wrong"), basic(TOKEN, ""))
    for address, authorization in zip(API_ADDRESSES, wrong, strict=True):
        headers = {"Authorization": authorization} if authorization else {}
        refused = client.get(address, headers={"Accept": "text/html", **headers})
        assert refused.status_code == 401
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        assert TOKEN not in refused.text
    for authorization in (f"Bearer {TOKEN}", basic("anybody", TOKEN)):
        headers = {"Authorization": authorization}
        answers = [client.get(address, headers=headers) for address in API_ADDRESSES]
        assert [answer.status_code for answer in answers] == [400, 200, 404, 200]


@pytest.mark.parametrize("way", ["form", "page", "API"])
def test_wrong_tokens_lock_nobody_out(way: str) -> None:
    client = client_of(page(token=TOKEN))

    def status_with(token: str) -> int:
        if way == "form":
            return client.post("/login", data={"token": token}).status_code
        authorization = basic("me", token) if way == "API" else f"Bearer {token}"
        headers = {"Authorization": authorization, "Accept": "application/json"}
        address = DESCRIPTION if way == "API" else "/c/prod/"
        return client.get(address, headers=headers).status_code

    wrong, right = {"form": (403, 302), "page": (401, ALLOWED), "API": (401, 200)}[way]
    assert {status_with("x") for _ in range(200)} == {wrong}
    assert status_with(TOKEN) == right


@pytest.mark.parametrize(
    ("address", "may_be_linked"),
    [
        *(("/c/prod/", True), ("/c/prod/?at=2999-01-01", True), ("/c/prod", True)),
        # These take work from the server with each request.
        *((f"/c/prod/{path}", False) for path in ("sql", "group/chart", "group/alert")),
        (DESCRIPTION, False),
    ],
)
def test_no_other_site_makes_a_browser_send_requests(address: str, may_be_linked: bool) -> None:
    client = client_of(page("127.0.0.1"))

    def is_refused(site: str, mode: str, dest: str, method: str = "GET") -> bool:
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
        return client.request(method, address, headers=headers).status_code == 403

    for site in ("cross-site", "same-site"):
        assert is_refused(site, "no-cors", "image")
        assert is_refused(site, "cors", "empty")
        assert is_refused(site, "navigate", "iframe")
        assert is_refused(site, "navigate", "document", "POST")
        is_link_refused = is_refused(site, "navigate", "document")
        assert is_link_refused == (site == "cross-site" and not may_be_linked)
    for own in ("same-origin", "none"):
        assert not is_refused(own, "cors", "empty")


@pytest.mark.parametrize(("create", "path"), [(page, "/c/prod/"), (api, "/v3/kafka")])
def test_a_proxy_lets_people_in(create: Callable[..., Starlette], path: str) -> None:
    app = create(auth_header="X-User")
    assert status(app, path) == 403
    assert status(app, path, X_User="me") != 403


@pytest.mark.parametrize("address", ["/c/prod/", "/api/v1/groups", "/v3/kafka/prod/consumer/g"])
def test_nothing_can_be_changed(address: str) -> None:
    client = client_of(page("127.0.0.1"))
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        refused = client.request(method, address)
        assert refused.status_code == 405
        assert address == "/c/prod/" or "GET" in refused.headers["Allow"]


def test_the_page_answers_all_addresses_that_are_not_of_the_api() -> None:
    client = client_of(page("127.0.0.1"))
    for address in ("/c/prod/", "/api/v1nope", "/v3x", "/api"):
        assert client.get(address).headers["Content-Type"].startswith("text/html"), address
