"""Who may see the API: the rules of the page, and answers that programs understand."""

from __future__ import annotations

from base64 import b64encode

import pytest
from flask import Flask
from flask.testing import FlaskClient

from streaming.api.app import create_app
from streaming.dashboard.app import create_app as create_page
from streaming.http.access import Access
from streaming.http.attempts import PER_CLIENT
from streaming.served.cluster import Cluster
from tests.support.tables.dashboard_tables import DashboardTables

TOKEN = "s3cr3t-of-16-characters"  # noqa: S105 - of these tests
OTHER_HOST = "0.0.0.0"  # noqa: S104 - of these tests
ADDRESSES = ("/api/v1/groups", "/api/v1/openapi.json", "/api/v1/nope", "/v3/kafka")


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


@pytest.fixture(params=["alone", "beside the page"])
def guarded(request: pytest.FixtureRequest, tables: DashboardTables) -> Flask:
    access = Access(OTHER_HOST, token=TOKEN)
    if request.param == "alone":
        return create_app({"prod": Cluster("prod", tables.folder)}, access=access)
    return create_page({"prod": tables.folder}, access=access)


def test_a_token_is_needed(guarded: Flask) -> None:
    client = guarded.test_client()
    wrong: list[dict[str, str]] = [
        *({}, {"Authorization": "Bearer wrong"}, basic("me", "wrong"), basic(TOKEN, "")),
    ]
    for address, headers in zip(ADDRESSES, wrong, strict=True):
        refused = client.get(address, headers={"Accept": "text/html", **headers})
        assert refused.status_code == 401
        assert refused.content_type == "application/problem+json"
        assert refused.headers["WWW-Authenticate"].startswith("Bearer")
        assert TOKEN not in refused.text
    for address in ADDRESSES:
        for right in ({"Authorization": f"Bearer {TOKEN}"}, basic("anybody", TOKEN)):
            expected = 404 if "nope" in address else 200
            assert client.get(address, headers=right).status_code == expected


def test_who_signed_in_on_the_page_may_use_the_api(tables: DashboardTables) -> None:
    access = Access(OTHER_HOST, token=TOKEN)
    client = create_page({"prod": tables.folder}, access=access).test_client()
    client.post("/login", data={"token": TOKEN})
    assert client.get("/api/v1/groups").status_code == 200


def test_who_guesses_has_to_wait(guarded: Flask) -> None:
    client = guarded.test_client()
    for number in range(PER_CLIENT):
        client.get("/api/v1/groups", headers=basic("me", str(number)))
    late = client.get("/api/v1/groups", headers=basic("me", TOKEN))
    assert (late.status_code, late.content_type) == (429, "application/problem+json")
    assert int(late.headers["Retry-After"]) > 0


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_sites_cannot_use_it(client: FlaskClient, site: str) -> None:
    fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
    assert client.get("/api/v1/groups", headers=fetched).status_code == 403
    linked = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    linked |= {"Sec-Fetch-Dest": "document"}
    assert client.get("/api/v1/groups", headers=linked).status_code == 403
    assert client.get("/v3/kafka", headers={"Sec-Fetch-Site": "none"}).status_code == 200


def test_another_name_of_the_host_is_refused(client: FlaskClient) -> None:
    assert client.get("/api/v1/groups", headers={"Host": "evil.example"}).status_code == 403


def test_a_proxy_lets_people_in(tables: DashboardTables) -> None:
    access = Access(OTHER_HOST, auth_header="X-User")
    client = create_app({"prod": Cluster("prod", tables.folder)}, access=access).test_client()
    assert client.get("/api/v1/groups").status_code == 403
    assert client.get("/api/v1/groups", headers={"X-User": "me"}).status_code == 200


@pytest.mark.parametrize("method", ["post", "put", "delete", "patch"])
@pytest.mark.parametrize("address", ["/api/v1/groups", "/v3/kafka/prod/consumer/payments"])
def test_nothing_can_be_changed(client: FlaskClient, method: str, address: str) -> None:
    refused = getattr(client, method)(address)
    assert refused.status_code == 405
    assert "GET" in refused.headers["Allow"]


def test_the_page_answers_all_other_addresses(tables: DashboardTables) -> None:
    client = create_page({"prod": tables.folder}).test_client()
    for address in ("/c/prod/", "/api/v1nope", "/v3x", "/api"):
        answer = client.get(address)
        assert answer.content_type.startswith("text/html"), address
