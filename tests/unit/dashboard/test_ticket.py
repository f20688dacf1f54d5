"""A ticket about groups, topics and clients with hostile names."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import urlencode

from flask.testing import FlaskClient
from markdown_it import MarkdownIt

from streaming.views.text import printable
from tests.support.tables.dashboard_tables import HOSTILE, REWOUND


def test_names_in_a_ticket_are_only_text(client: FlaskClient) -> None:
    named = rendered(client, HOSTILE)
    assert f"<h1><code>{printable(HOSTILE)}</code>" in named
    # Its topic and the client that set it back have such names.
    rewound = rendered(client, REWOUND)
    assert f"{printable(HOSTILE)}:0 set back from 990 to 100" in rewound
    assert f"by {printable(HOSTILE)}" in rewound


def rendered(client: FlaskClient, group: str) -> str:
    """The text of a ticket as a reader of Markdown shows it, with our own elements only."""
    ticket = client.get(f"/c/prod/group/ticket?{urlencode({'group': group})}").text
    assert "\x1b" not in ticket
    html = MarkdownIt("commonmark").enable(["strikethrough", "table"]).render(ticket)
    elements = {"h1", "p", "ul", "ol", "li", "strong", "code", "pre", "a"}
    assert set(re.findall(r"<(\w+)", html)) <= elements
    links = re.findall(r'="(http[^"]*)"', html)
    assert links
    assert all(one.startswith("http://localhost/c/prod/") for one in links)
    return unescape(html).replace("\u2060", "")
