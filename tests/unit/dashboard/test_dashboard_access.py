"""Who may see the page: tokens, proxies, other sites, and wrong tokens."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from streaming.dashboard.app import create_app
from streaming.errors import ConfigurationError
from streaming.http.access import Access
from streaming.http.attempts import IN_ALL, PER_CLIENT, WITHIN_S, Attempts, TooManyAttempts
from tests.support.tables.dashboard_tables import DashboardTables

TOKEN = "s3cr3t-of-16-characters"  # noqa: S105 - of these tests


def test_elsewhere_it_needs_a_token_or_a_proxy() -> None:
    with pytest.raises(
        ConfigurationError, match="other machines could read the tables: set a token"
    ):
        Access("0.0.0.0")  # noqa: S104 - that it is refused


def test_a_token_is_asked_for_once(tables: DashboardTables) -> None:
    access = Access("0.0.0.0", token=TOKEN)  # noqa: S104 - of this test
    client = create_app({"prod": tables.folder}, access=access).test_client()
    sent = client.get("/c/prod/?search=x", headers={"Accept": "text/html"})
    assert sent.status_code == 302
    assert client.get("/c/prod/", headers={"Accept": "application/json"}).status_code == 401
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/c/prod/", headers=bearer).status_code == 200
    # As curl asks, which accepts anything.
    wrong = {"Authorization": "Bearer wrong", "Accept": "*/*"}
    assert client.get("/c/prod/", headers=wrong).status_code == 401
    login = sent.headers["Location"]
    assert client.get(login).status_code == 200
    assert "Wrong token." in client.post(login, data={"token": "x"}).text
    led = client.post(login, data={"token": TOKEN})
    assert led.headers["Location"] == "/c/prod/?search=x"
    cookie = led.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie
    assert client.get("/c/prod/").status_code == 200
    for to in ("//evil.example/", "/%09/evil.example", "/c/%0a", "/c/%5cevil", "x"):
        elsewhere = client.post(f"/login?to={to}", data={"token": TOKEN})
        assert elsewhere.headers["Location"] == "/"


@pytest.mark.parametrize("empty", ["", " "])
def test_nothing_is_no_token(empty: str) -> None:
    for token, auth_header in ((empty, None), (None, empty)):
        with pytest.raises(ConfigurationError, match="is empty"):
            Access("0.0.0.0", token, auth_header)  # noqa: S104 - that it is refused


def test_a_token_that_can_be_guessed_is_none() -> None:
    with pytest.raises(ConfigurationError, match="has 15 characters and needs at least 16"):
        Access("127.0.0.1", token="0" * 15)
    assert Access("127.0.0.1", token="0" * 16)


@pytest.mark.parametrize("way", ["form", "bearer"])
def test_who_guesses_has_to_wait(tables: DashboardTables, way: str) -> None:
    access = Access("0.0.0.0", token=TOKEN)  # noqa: S104 - of this test
    app = create_app({"prod": tables.folder}, access=access)
    signed_in = app.test_client()
    signed_in.post("/login", data={"token": TOKEN})

    def tried(token: str, client: str = "10.0.0.1") -> TestResponse:
        where = {"environ_base": {"REMOTE_ADDR": client}}
        if way == "form":
            return app.test_client().post("/login", data={"token": token}, **where)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        return app.test_client().get("/c/prod/", headers=headers, **where)

    wrong, right = (403, 302) if way == "form" else (401, 200)
    assert [tried("x").status_code for _ in range(PER_CLIENT)] == [wrong] * PER_CLIENT
    # Now not even the right one is looked at.
    refused = tried(TOKEN)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= WITHIN_S
    assert "too many wrong tokens, retry in" in refused.text
    assert tried(TOKEN, "10.0.0.2").status_code == right
    for number in range(IN_ALL - PER_CLIENT):
        assert tried("x", f"10.0.1.{number}").status_code == wrong
    assert tried(TOKEN, "10.0.0.2").status_code == 429
    # Whoever is in stays in.
    assert signed_in.get("/c/prod/").status_code == 200


def test_nobody_learns_what_there_is(tables: DashboardTables) -> None:
    access = Access("0.0.0.0", token=TOKEN)  # noqa: S104 - of this test
    client = create_app({"prod": tables.folder}, access=access).test_client()
    for address in ("/c/prod/?at=x", "/c/nope/", "/c/prod/", "/"):
        answer = client.get(address, headers={"Accept": "application/json"})
        assert answer.status_code == 401
        assert "prod" not in answer.text


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize("page", ["", "?at=2999-01-01", "sql", "group/chart", "group/alert"])
def test_no_other_site_has_a_browser_ask(client: FlaskClient, page: str, site: str) -> None:
    def status(site: str, mode: str, dest: str, method: str = "GET") -> int:
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
        return client.open(f"/c/prod/{page}", method=method, headers=headers).status_code

    image, frame = status(site, "no-cors", "image"), status(site, "navigate", "iframe")
    form = status(site, "navigate", "document", "POST")
    assert (image, frame, form) == (403, 403, 403)
    is_query = page in {"sql", "group/chart", "group/alert"}
    is_refused = is_query and site == "cross-site"
    assert (status(site, "navigate", "document") == 403) == is_refused
    for own in ("same-origin", "none"):
        assert status(own, "cors", "empty") != 403


def test_a_proxy_lets_in(tables: DashboardTables) -> None:
    access = Access("0.0.0.0", auth_header="X-User")  # noqa: S104 - of this test
    client = create_app({"prod": tables.folder}, access=access).test_client()
    assert client.get("/c/prod/").status_code == 403
    assert client.get("/c/prod/", headers={"X-User": "me"}).status_code == 200


def test_wrong_tokens_are_forgotten_after_a_minute() -> None:
    clock = [0.0]
    attempts = Attempts(lambda: clock[0])

    def judged_at(second: float, is_right: bool) -> bool:
        clock[0] = second
        return attempts.judge("a", lambda: is_right)

    assert not any(judged_at(second, False) for second in range(PER_CLIENT))
    for second in (PER_CLIENT, WITHIN_S - 1):
        with pytest.raises(TooManyAttempts) as refused:
            judged_at(second, True)
        assert refused.value.wait_s == WITHIN_S - second
    assert judged_at(WITHIN_S, True)
    assert not judged_at(WITHIN_S, False)
    with pytest.raises(TooManyAttempts):
        judged_at(WITHIN_S, True)
