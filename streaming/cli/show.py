"""The command `coordinator-state show`: its tables, its histories, and their text.

Its Python API is `streaming.tables.reader`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from coordinator_state.insight.group_events import EventName
from streaming.cli.opened_tables import exit_if_nothing_is_current, exit_if_unknown, opened_tables
from streaming.cli.options import (
    Choice,
    as_of_option,
    consistent_option,
    option,
    options,
    output_option,
    parse_toml,
    tables_option,
    usage_error,
)
from streaming.run.stderr import write_note, write_warning
from streaming.views.output import Output

if TYPE_CHECKING:
    import pyarrow as pa

    from streaming.tables.reader import TableReader
    from streaming.views.lists import HistoryTable


class View(NamedTuple):
    """A table, the columns of its text output, and the sort order of its rows."""

    table: str
    columns: tuple[str, ...]
    order: tuple[str, ...]

    @property
    def has_groups(self) -> bool:
        """Whether its rows have a group id."""
        return "group_id" in self.columns


MEMBER = "member"
"""A column of text output only: the label of the member."""
TOPIC_PARTITION = ("group_id", "topic", "partition")
PROGRESS = "progress"
_OF_ANY_LOAD = frozenset(
    {
        *(PROGRESS, "alerts"),
        *("transactions", "transaction-events", "share-partitions", "topic-progress"),
    }
)
"""The rows that do not wait for the load of log partitions of `__consumer_offsets`."""
LAG = "lag"
STATUS = "status"
_LAG_COLUMNS = (
    *TOPIC_PARTITION,
    *("group_state", "committed_offset", "log_end_offset", "lag", "is_lag_lower_bound"),
    *("data_lost", "time_lag_ms"),
    *("time_lag_at_least_ms", "time_lag_unknown"),
    *("time_to_catch_up_ms", "retention_margin_ms", "client_id", "client_host"),
    "topic_state",
)
_TOTALS_HIDDEN = ("lag_to_last_stable", "last_commit_timestamp")

VIEWS: Final = {
    name: View(view["table"], tuple(view["columns"].split()), tuple(view["order"].split()))
    for name, view in parse_toml(
        Path(__file__).with_name("show.toml").read_text(encoding="utf-8")
    ).items()
}
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

    def check(self, view: str, output: Output) -> None:
        """Refuse options that do not work with a view.

        Raises:
            UsageError: an option does not work with the view.
        """
        period = {"--since": self.since, "--until": self.until, "--limit": self.limit}
        given = [name for name, value in period.items() if value is not None]
        if given and view not in HISTORIES:
            raise usage_error(
                f"{given[0]} works only with events, history and group-records, not with {view}"
            )
        for name, value in (("--event", self.events), ("--folded", self.folded)):
            if value and view != "events":
                raise usage_error(f"{name} works only with events, not with {view}")
        if self.folded and not output.is_text:
            raise usage_error("--folded works only with text: JSON has one object per event")

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

    from streaming.views.event_summary import member_labels

    named = rows.select(["group_id", "member_id", "client_id"]).to_pylist()
    labels = member_labels(reader, named)
    column = [labels.get((row["group_id"], row["member_id"])) for row in named]
    return rows.append_column("member", pa.array(column, pa.string()))


@click.command()
@click.argument("what", type=Choice([*VIEWS, LAG, STATUS]))
@tables_option
@option("--group", metavar="GROUP", help="Only rows of this group.")
@option(
    "--by",
    type=Choice(["partition", "topic", "group"]),
    help="For lag: one row per partition (the default), or sums and maxima per topic or group. For "
    "status: one row per group (the default) or partition.",
)
@option(
    "--rules",
    type=Choice(["default", "burrow"]),
    default="default",
    help="For status: the rules that decide the status, those of this program or of Burrow.",
)
@history_options
@as_of_option
@consistent_option
@output_option
def show(
    *,
    what: str,
    tables: str,
    group: str | None,
    by: str | None,
    rules: str,
    as_of: str | None,
    consistent: bool,
    output: Output,
    **history: Any,
) -> None:
    """Show the rows of a table as of a finished micro-batch.

    \b
    The argument selects the rows:
      groups, members, offsets, pending, lag, quarantine
      status    OK, WARN, STOP, ... with reasons
      events    changes of groups and their offsets, the newest 100
      progress  one row per log partition
      alerts    of the command alert run
      records   last record of each key, all types except offset commits
      history   offset commits, the newest 100
      group-records  records of groups, the newest 100
      transactions        transactional ids, and when an open transaction is aborted
      transaction-events  beginnings and ends of transactions
      share-partitions    delivery state of the partitions of share groups
      topic-progress      load of the internal topics besides __consumer_offsets

    By default all rows come from one snapshot. Two commands with the same --as-of read the same
    snapshot. Text shows the most important columns, JSON shows all. If the group of --group does
    not exist, a warning names similar groups, and the exit status is 1. A warning also counts log
    partitions that are not current yet. Exits with status 1 if no log partition is current (except
    for progress and alerts). The command offsets answers as a coordinator does.
    Python API: streaming.tables.reader.TableReader.read and, in streaming.lag, group_lag,
    Evaluation.read and burrow_group_statuses.

    \b
    Examples:
      coordinator-state show groups --tables tables
      coordinator-state show offsets --tables tables --group payments --output json
      coordinator-state show offsets --tables tables --as-of 2026-11-21T03:14:00Z
      coordinator-state show lag --tables tables --group payments
      coordinator-state show lag --tables tables --by group
      coordinator-state show status --tables tables --as-of 2026-11-21T03:14:00Z
      coordinator-state show events --tables tables --group payments
      coordinator-state show events --tables tables --folded --since 30m
      coordinator-state show events --tables tables --event offset_rewind --event offset_reset
      coordinator-state show history --tables tables --group payments --limit 0 --output json
    """
    options = HistoryOptions(**history)
    options.check(what, output)
    if rules != "default" and what != STATUS:
        raise usage_error(f"--rules works only with status, not with {what}")
    reader = opened_tables(
        tables, as_of, consistent=consistent, warns_if_stale=what in (LAG, STATUS)
    )
    group_ids = None if group is None else [group]
    if what == LAG:
        rows, columns = _lag(reader, group_ids, by or "partition")
    elif what == STATUS:
        rows, columns = _status(reader, group_ids, by or "group", rules)
    elif by is not None:
        raise usage_error(f"--by works only with lag and status, not with {what}")
    else:
        rows, columns = _table(reader, what, group, options)
    if output.is_text and MEMBER in columns:
        rows = with_member_labels(rows, reader)
    output.table(rows, columns)
    if what == PROGRESS and output.is_text:
        _write_evaluation_note(reader)
    if what not in _OF_ANY_LOAD:
        exit_if_nothing_is_current(reader)
    if group is not None and not rows.num_rows:
        exit_if_unknown(reader, group)


def _write_evaluation_note(reader: TableReader) -> None:
    """Write to stderr when `run` last evaluated lag and status."""
    import pyarrow.compute as pc

    from coordinator_state.insight.group_status import moment_text, time_text

    if not reader.is_newest:
        return
    evaluated_at = pc.max(reader.read("group_status", ["evaluated_at"])["evaluated_at"]).as_py()
    if evaluated_at is not None:
        age_ms = max((reader.moment - evaluated_at).total_seconds() * 1000, 0)
        at = moment_text(evaluated_at, reader.moment)
        write_note(f"`run` evaluated lag and status at {at} ({time_text(age_ms)} ago)")


def _table(
    reader: TableReader, view_name: str, group: str | None, options: HistoryOptions
) -> tuple[pa.Table, Sequence[str]]:
    """The rows of a table, and the columns of its text output."""
    view = VIEWS[view_name]
    if group is not None and not view.has_groups:
        raise usage_error(f"--group does not work with {view_name}: its rows have no groups")
    if options.folded:
        return folded_rows(reader, group, options)
    if view_name in HISTORIES:
        return history_rows(reader, view_name, group, options), view.columns
    filters = None if group is None else [("group_id", "=", group)]
    if reader.lacks(view.table):
        write_warning(
            f"{view.table} has no history: its rows of that moment are no longer available"
        )
    rows = reader.read(view.table, filters=filters)
    if view_name == "pending":
        from streaming.lag.open_transactions import with_owners

        rows = with_owners(reader, rows)
    return rows.sort_by([(column, "ascending") for column in view.order]), view.columns


def _lag(
    reader: TableReader, group_ids: Sequence[str] | None, by: str
) -> tuple[pa.Table, Sequence[str]]:
    from streaming.lag.evaluation import Evaluation
    from streaming.lag.group_lag import lag_totals

    evaluation = Evaluation.read(reader, group_ids=group_ids)
    if by == "partition":
        return evaluation.group_lag(), _LAG_COLUMNS
    totals = lag_totals(evaluation.lags, by)
    return totals, [name for name in totals.column_names if name not in _TOTALS_HIDDEN]


def _status(
    reader: TableReader, group_ids: Sequence[str] | None, by: str, rules: str
) -> tuple[pa.Table, Sequence[str]]:
    from streaming.lag import burrow_status
    from streaming.lag.evaluation import Evaluation
    from streaming.tables.rows import StatusRow
    from streaming.views.definitions import VIEWS

    if by == "topic":
        raise usage_error("--by must be group or partition for status")
    statuses: pa.Table
    if rules == "burrow" and by == "group":
        statuses = burrow_status.burrow_group_statuses(reader, group_ids=group_ids)
    elif rules == "burrow":
        statuses = burrow_status.burrow_partition_statuses(reader, group_ids=group_ids)
    elif by == "group":
        statuses = Evaluation.read(reader, group_ids=group_ids).statuses
    else:
        lags = Evaluation.read(reader, group_ids=group_ids).group_lag()
        statuses = lags.select(VIEWS["partition_status"].names)
    shown = {field.name for field in fields(StatusRow)}
    return statuses, [name for name in statuses.column_names if name in shown]
