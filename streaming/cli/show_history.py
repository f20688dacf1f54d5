"""The histories of `coordinator-state show`: the newest rows, or a summary of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from coordinator_state.insight.group_events import EventName
from streaming.cli.options import Choice, option, options
from streaming.run.stderr import write_note

if TYPE_CHECKING:
    import pyarrow as pa

    from streaming.tables.reader import TableReader
    from streaming.views.history import HistoryTable

HISTORIES: Final[Mapping[str, HistoryTable]] = {
    "events": "group_events",
    "history": "offset_commits",
    "group-records": "group_records",
}
"""The views with these options, and their tables."""
DEFAULT_LIMIT: Final = 100
_MAX_FOLDED: Final = 100_000
"""How many events a summary covers."""
_FOLDED_COLUMNS: Final = ("first", "last", "count", "group_id", "event", "details")
history_options: Final = options(
    option(
        "--since",
        metavar="TIME",
        help="For events, history and group-records: rows from this time on, in the formats "
        "of --as-of.",
    ),
    option(
        "--until",
        metavar="TIME",
        help="For events, history and group-records: rows up to this time.",
    ),
    option(
        "--event",
        "events",
        type=Choice([name.value for name in EventName]),
        metavar="NAME",
        multiple=True,
        help="For events: only events of this type, such as offset_rewind; repeatable.",
    ),
    option(
        "--limit",
        type=click.IntRange(min=0),
        metavar="N",
        help="For events, history and group-records: the newest N rows; 0 for all. [default: 100]",
    ),
    option(
        "--folded",
        is_flag=True,
        help="For events: a summary with one row for equal events. Rewinds, resets, deletions and "
        "expiries come first.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOptions:
    """The options of the views in `HISTORIES`."""

    since: str | None
    until: str | None
    events: Sequence[str]
    limit: int | None
    folded: bool

    def check(self, view: str, output: str) -> None:
        """Refuse options that do not work with a view.

        Raises:
            UsageError: an option does not work with the view.
        """
        period = {"--since": self.since, "--until": self.until, "--limit": self.limit}
        given = [name for name, value in period.items() if value is not None]
        if given and view not in HISTORIES:
            raise click.UsageError(
                f"{given[0]} works only with events, history and group-records, not with {view}"
            )
        for name, value in (("--event", self.events), ("--folded", self.folded)):
            if value and view != "events":
                raise click.UsageError(f"{name} works only with events, not with {view}")
        if self.folded and output == "json":
            raise click.UsageError("--folded works only with text: JSON has one object per event")

    @property
    def most(self) -> int | None:
        """The number of rows to show; None for all."""
        limit = DEFAULT_LIMIT if self.limit is None else self.limit
        return limit or None


def history_rows(
    reader: TableReader, view: str, group: str | None, options: HistoryOptions
) -> pa.Table:
    """The newest rows, in the order of time; a note on stderr counts the others."""
    from streaming.views.history import history

    newest = history(
        reader,
        HISTORIES[view],
        group=group,
        events=options.events,
        since=options.since,
        until=options.until,
        limit=options.most,
    )
    if newest.more:
        summary = ", --folded shows a summary" if view == "events" else ""
        write_note(
            f"{newest.more:,} older rows are not shown: --limit 0 shows all, --since and --until "
            f"select a period{summary}"
        )
    return newest.rows


def folded_rows(
    reader: TableReader, group: str | None, options: HistoryOptions
) -> tuple[pa.Table, Sequence[str]]:
    """The summary of events, and its columns; notes on stderr count the missing rows."""
    import pyarrow as pa

    from streaming.views.event_summary import event_summary

    summary = event_summary(
        reader,
        group=group,
        events=options.events,
        since=options.since,
        until=options.until,
        most=_MAX_FOLDED,
    )
    if summary.more:
        write_note(
            f"{summary.more:,} older events are not in the summary: narrow it with --since, "
            "--until, --group or --event"
        )
    folded = summary.rows
    shown = folded[: options.most]
    if len(folded) > len(shown):
        write_note(f"{len(folded) - len(shown):,} minor rows are not shown: --limit 0 shows all")
    values = [
        (row.first_at, row.last_at, row.count, row.group_id, ", ".join(row.events), row.text)
        for row in shown
    ]
    columns = list(zip(*values, strict=True)) if values else [()] * len(_FOLDED_COLUMNS)
    return pa.table(dict(zip(_FOLDED_COLUMNS, map(list, columns), strict=True))), _FOLDED_COLUMNS


def with_member_labels(rows: pa.Table, reader: TableReader) -> pa.Table:
    """Rows of members or events with the column `member`, a label that is unique in its group."""
    import pyarrow as pa

    from streaming.views.member_labels import member_labels

    named = rows.select(["group_id", "member_id", "client_id"]).to_pylist()
    labels = member_labels(reader, named)
    column = [labels.get((row["group_id"], row["member_id"])) for row in named]
    return rows.append_column("member", pa.array(column, pa.string()))
