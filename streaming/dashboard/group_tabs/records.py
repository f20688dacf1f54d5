"""The tab "Raw records": the group's newest records in the log, and each of them whole."""

from __future__ import annotations

from base64 import b64decode
from datetime import date, datetime
from typing import Final

from starlette.exceptions import HTTPException

from coordinator_state.records.member_json import assignment_json, subscription_json
from coordinator_state.records.record_types import GROUP_METADATA_TYPE
from streaming.dashboard.group_tabs.shown_group import Row
from streaming.dashboard.period import SPANS, period_of
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import request
from streaming.errors import ConfigurationError
from streaming.views.group_log import LogRecord, newest_records, record_at
from streaming.views.text import readable_json

MOST_RECORDS: Final = 100
_MOST_TEXT: Final = 300
"""Characters of a value in the list."""
_MOST_DECODED: Final = 8_192
"""Bytes of a value that the list decodes: a group with many members has records of 100 kB."""
_MOST_SHOWN: Final = 100_000
"""Characters of JSON or hex on the page of a record."""


def records() -> str:
    """Show the newest records of a group; its page loads them after itself."""
    group_id = request.query_params.get("group", "")
    snapshot = request.cluster.opened(request.at)
    period = period_of(snapshot.reader.moment)
    newest = newest_records(
        snapshot.reader, group_id, since=period.since, until=period.until, limit=MOST_RECORDS
    )
    return render_template(
        "group/newest_records.html",
        snapshot=snapshot,
        group_id=group_id,
        period=period,
        spans=SPANS,
        most=MOST_RECORDS,
        records=[_row(record) for record in newest.rows],
        commits_sql=newest.commits_sql,
        records_sql=newest.others_sql,
    )


def record() -> str:
    """Show one record: its JSON, the decoded bytes of its members, and its own bytes."""
    group_id = request.query_params.get("group", "")
    snapshot = request.cluster.opened(request.at)
    log_partition, record_offset = _number("log_partition"), _number("record_offset")
    log_record = record_at(snapshot.reader, group_id, log_partition, record_offset, _day())
    if log_record is None:
        raise HTTPException(404, f"The history has no such record of group {group_id!r}.")
    document = log_record.document
    return render_template(
        "group/record.html",
        snapshot=snapshot,
        group_id=group_id,
        record=log_record,
        shown=[
            (title, text[:_MOST_SHOWN], len(text) - _MOST_SHOWN)
            for title, text in (
                ("Key and value", readable_json(document, indent=2)),
                ("Members", _members_text(document)),
                ("Bytes of the key", _hex(log_record.raw_key)),
                ("Bytes of the value", _hex(log_record.raw_value)),
            )
            if text
        ],
    )


def _row(record: LogRecord) -> Row:
    size = None if record.raw_value is None else len(record.raw_value)
    if size is not None and size > _MOST_DECODED:
        return {"record": record, "size": size, "key": None, "value": None}
    document = record.document
    if "error" in document:
        return {"record": record, "size": size, "key": None, "value": document["error"]}
    value = None if document["value"] is None else document["value"].get("data", document["value"])
    return {
        "record": record,
        "size": size,
        "key": _cut(readable_json(document["key"]["data"])),
        "value": None if value is None else _cut(readable_json(value)),
    }


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} …"


def _members_text(document: Row) -> str:
    """The decoded bytes of the members of a classic group; empty for other records."""
    if document.get("key", {}).get("type") != GROUP_METADATA_TYPE or document["value"] is None:
        return ""
    data = document["value"]["data"]
    protocol_type = data["protocolType"]
    members = [
        {
            "memberId": member["memberId"],
            "subscription": subscription_json(protocol_type, b64decode(member["subscription"])),
            "assignment": assignment_json(protocol_type, b64decode(member["assignment"])),
        }
        for member in data["members"]
    ]
    return readable_json(members, indent=2) if members else ""


def _hex(raw: bytes | None) -> str:
    return "" if raw is None else raw.hex(" ", -4)


def _number(argument: str) -> int:
    text = request.query_params.get(argument, "")
    if not (text.isdecimal() and len(text) < 19):
        raise ConfigurationError(f"{argument} is not a number: {text!r}")
    return int(text)


def _day() -> date | None:
    text = request.query_params.get("day", "")
    try:
        return datetime.strptime(text, "%Y-%m-%d").date() if text else None  # noqa: DTZ007 - a day
    except ValueError as error:
        raise ConfigurationError(f"day is not a day such as 2026-11-21: {text!r}") from error


PAGES = (
    Page("group/records", "group_records", records, is_costly=True),
    Page("group/record", "group_record", record, is_costly=True),
)
