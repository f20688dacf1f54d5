"""The story of a group on its page: why it is behind, each line with its links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.exceptions import HTTPException
from starlette.responses import Response

from coordinator_state.insight.story import Story, StoryLine
from streaming.dashboard.period import around
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import moment_text, request, url_for
from streaming.dashboard.ticket import place_text, ticket_of
from streaming.views.diagnosis import group_story


@dataclass(frozen=True, slots=True)
class LinkedLine:
    """A line of a story, and the addresses of its moment and of its records, if it has them."""

    line: StoryLine
    moment: str | None
    records: str | None

    @property
    def place(self) -> str:
        """The text of the link to the records."""
        return place_text(self.line)


def why() -> str:
    """Explain one group; the page of the group loads it after itself."""
    group_id = request.query_params.get("group", "")
    snapshot = request.cluster.opened(request.at)
    story = group_story(snapshot.reader, group_id, at=snapshot.at)
    return render_template(
        "why.html",
        snapshot=snapshot,
        group_id=group_id,
        story=story,
        lines=_linked(story, story.lines) if story else (),
        more=_linked(story, story.more) if story else (),
        ticket=_ticket(story) if story else "",
    )


def ticket() -> Response:
    """The story as Markdown, to be pasted into a ticket."""
    group_id = request.query_params.get("group", "")
    snapshot = request.cluster.opened(request.at)
    story = group_story(snapshot.reader, group_id, at=snapshot.at)
    if story is None:
        raise HTTPException(
            404, f"No data about group {group_id!r} in the hour before this moment."
        )
    return Response(_ticket(story), media_type="text/markdown")


def _ticket(story: Story) -> str:
    """The Markdown; its links show everything as of the moment of the story."""
    lines = _linked(story, story.lines, at=_text(story.at), external=True)
    return ticket_of(
        story,
        cluster=request.cluster.name,
        lines=[(linked.line, linked.moment, linked.records) for linked in lines],
        address=url_for("group", group=story.group_id, at=_text(story.at), external=True),
    )


def _linked(story: Story, lines: Sequence[StoryLine], **options: Any) -> Sequence[LinkedLine]:
    return [
        LinkedLine(
            line,
            _moment_address(story, line, **options),
            None if line.sql is None else url_for("sql", query=line.sql, **options),
        )
        for line in lines
    ]


def _moment_address(story: Story, line: StoryLine, **options: Any) -> str | None:
    """The group at the moment of a line: its state, or the period around the moment."""
    if line.at is None:
        return None
    if line.is_now:
        return url_for(
            "group",
            group=story.group_id,
            **(options | {"at": _text(line.at)}),
        )
    return url_for("group", group=story.group_id, **around(line.at, line.last_at), **options)


def _text(at: datetime) -> str:
    return moment_text(at, "milliseconds")


PAGES = (
    Page("group/why", "group_why", why, is_costly=True),
    Page("group/ticket", "group_ticket", ticket, is_costly=True),
)
