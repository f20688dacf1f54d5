"""The components page has every token, status, state and component of the pages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from flask.testing import FlaskClient

from coordinator_state.insight.group_status import Status
from coordinator_state.insight.state_meanings import STATE_MEANINGS, STATUS_MEANINGS
from streaming.api.groups import GroupState
from streaming.dashboard import app
from streaming.dashboard.app import create_app

STATIC = Path(app.__file__).with_name("static")


@pytest.fixture
def client() -> FlaskClient:
    return create_app({}).test_client()


def test_it_shows_every_token_and_status(client: FlaskClient) -> None:
    page = client.get("/styleguide")
    assert page.status_code == 200
    defined = re.findall(r"(--[\w-]+):", (STATIC / "tokens.css").read_text("utf-8"))
    assert re.findall(r"<code>(--[\w-]+)</code>", page.text) == defined
    names = [*(status.value for status in Status), *STATE_MEANINGS]
    assert [name for name in names if f">{name}</span>" not in page.text] == []


def test_every_status_and_state_has_a_meaning() -> None:
    assert list(STATUS_MEANINGS) == list(Status)
    assert set(STATE_MEANINGS) == set(get_args(GroupState))


@pytest.mark.parametrize("sheet", sorted(STATIC.glob("*.css")), ids=lambda sheet: sheet.name)
def test_style_sheets_use_defined_tokens_only(sheet: Path) -> None:
    defined = set(re.findall(r"(--[\w-]+):", (STATIC / "tokens.css").read_text("utf-8")))
    used = set(re.findall(r"var\((--[\w-]+)", sheet.read_text("utf-8")))
    assert used <= defined
