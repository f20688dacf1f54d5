"""Text of clients in Markdown is that text: it makes no link, no emphasis and no element."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from streaming.dashboard.ticket import code, code_block, escaped, link
from streaming.views.text import printable

MARKDOWN = MarkdownIt("commonmark").enable(["strikethrough", "table"])
ADDRESS = "http://localhost/sql?query=a+IN+(1,+2)"


def syntax() -> st.SearchStrategy[str]:
    """Text in which the syntax of Markdown is frequent."""
    return st.text(st.sampled_from("a1 .:/@\\`*_{}[]()<>#+-!|~&;=\"'$\n") | st.characters())


def spaces_folded(text: str) -> str:
    return re.sub(r" +", " ", text).strip(" ")


@given(syntax())
@example("[a](http://evil.example) ![b](c) <img src=x> &lt; **d** __e__ ~~f~~ `g`")
@example("\\[a](b)")
def test_escaped_text_is_rendered_as_it_is(text: str) -> None:
    html = MARKDOWN.render(f"1. **Cause**: {escaped(text)}|").strip()
    begin, end = "<ol>\n<li><strong>Cause</strong>:", "|</li>\n</ol>"
    assert html.startswith(begin)
    assert html.endswith(end)
    inside = html.removeprefix(begin).removesuffix(end)
    assert "<" not in inside
    shown = unescape(inside).replace("\u2060", "")
    assert spaces_folded(shown) == spaces_folded(printable(text))


@given(syntax())
@example("a`b``c")
@example("`")
def test_code_is_rendered_as_it_is(text: str) -> None:
    html = MARKDOWN.render(f"# {code(text)}: x").strip()
    match = re.fullmatch("<h1><code>(.*)</code>: x</h1>", html)
    assert match is not None, html
    assert unescape(match[1]).strip(" ") == (printable(text) or "(empty)").strip(" ")


@given(syntax())
def test_a_link_leads_to_its_address(text: str) -> None:
    html = MARKDOWN.render(f"x {link(text, ADDRESS)}").strip()
    match = re.fullmatch('<p>x <a href="([^"]*)">([^<]*)</a></p>', html)
    assert match is not None, html
    assert unescape(match[1]) == ADDRESS.replace("(", "%28").replace(")", "%29")


@given(st.lists(syntax().map(printable), min_size=1))
def test_command_lines_stay_in_their_block(lines: list[str]) -> None:
    html = MARKDOWN.render(code_block(lines)).strip()
    match = re.fullmatch('<pre><code class="language-sh">(.*)\n</code></pre>', html, re.DOTALL)
    assert match is not None, html
    assert unescape(match[1]) == "\n".join(lines)


def test_no_address_becomes_a_link_and_no_name_a_mention() -> None:
    assert escaped("http://a.b www.c.d x@y") == "http\\://a.b www\\.c.d x@\u2060y"
