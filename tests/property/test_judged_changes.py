"""The difference between evaluations, against a dictionary that is updated row by row."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Final

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.apply.columns import TIMESTAMP
from streaming.lag.judged_changes import judged_changes, kept_schema

KEY: Final = ["group_id", "partition"]
SCHEMA: Final = pa.schema(
    [
        *(("group_id", pa.string()), ("partition", pa.int32()), ("lag", pa.int64())),
        *(("status", pa.string()), ("reason", pa.string()), ("commit_age_ms", pa.int64())),
        *(("status_since", TIMESTAMP), ("is_status_older", pa.bool_())),
        ("evaluated_at", TIMESTAMP),
    ]
)
BEGIN: Final = datetime(2026, 11, 29, tzinfo=timezone.utc)
EVALUATIONS: Final = st.lists(
    st.tuples(
        st.dictionaries(
            st.tuples(st.sampled_from("ab"), st.integers(0, 2)),
            st.tuples(st.sampled_from([None, 0, 5]), st.sampled_from(["OK", "STOP", "UNKNOWN"])),
        ),
        st.integers(-30, 45),
        st.booleans(),
    ),
    max_size=6,
)

Row = dict[str, Any]


@given(evaluations=EVALUATIONS, most_rewritten=st.integers(0, 3))
def test_each_row_has_its_last_change(
    evaluations: list[tuple[dict[tuple[str, int], tuple[int | None, str]], int, bool]],
    most_rewritten: int,
) -> None:
    """Of random evaluations some seconds apart, by a clock that may go back."""
    kept, at = kept_schema(SCHEMA).empty_table(), BEGIN
    rows_before: dict[tuple[str, int], Row] = {}
    standing: dict[tuple[str, int], list[tuple[str, datetime, bool]]] = {}
    for state, seconds, is_after_gap in evaluations:
        at += timedelta(seconds=seconds)
        rows = pa.Table.from_pylist(
            [
                dict(zip(KEY, key, strict=True))
                | {"lag": lag, "status": status, "commit_age_ms": seconds, "evaluated_at": at}
                for key, (lag, status) in state.items()
            ],
            SCHEMA,
        )
        changes = judged_changes(
            kept,
            rows,
            key=KEY,
            rewritten_after=timedelta(seconds=60),
            most_rewritten=most_rewritten,
            is_after_gap=is_after_gap,
        )
        written = {(row["group_id"], row["partition"]) for row in taken(rows, changes.written)}
        is_changed = {
            key
            for key, (lag, status) in state.items()
            if key not in rows_before
            or (lag, status) != (rows_before[key]["lag"], rows_before[key]["status"])
        }
        ages = {
            key: at - rows_before[key]["evaluated_at"] for key in state.keys() & rows_before.keys()
        }
        due = {key for key, age in ages.items() if not timedelta(0) <= age <= timedelta(seconds=60)}
        assert is_changed <= written <= is_changed | due
        groups = {group for group, _ in due}
        assert len({group for group, _ in due & written}) >= min(len(groups), most_rewritten)
        if most_rewritten >= len(groups):
            assert due <= written

        expected = {
            (key, rows_before.get(key, {}).get("status"), status)
            for key, (_, status) in state.items()
            if status != rows_before.get(key, {}).get("status")
        } | {(key, row["status"], None) for key, row in rows_before.items() if key not in state}
        recorded = changes.statuses.to_pylist()
        assert len(recorded) == len(expected)
        assert expected == {
            ((row["group_id"], row["partition"]), row["status_before"], row["status_after"])
            for row in recorded
        }
        for row in recorded:
            if row["status_after"] is not None:
                (of_row,) = taken(rows, [row["number"]])
                assert [of_row[name] for name in KEY] == [row[name] for name in KEY]
        gone = {(row["group_id"], row["partition"]) for row in changes.deleted.to_pylist()}
        assert gone == rows_before.keys() - state.keys()

        kept, before = changes.kept, rows_before
        rows_before = {(row["group_id"], row["partition"]): row for row in kept.to_pylist()}
        assert rows_before.keys() == state.keys()
        standing = {
            key: _standing(standing.get(key, []), status, at, is_after_gap)
            for key, (_, status) in state.items()
        }
        for key, row in rows_before.items():
            assert (row["lag"], row["status"]) == state[key]
            assert row["evaluated_at"] == (at if key in written else before[key]["evaluated_at"])
            assert (row["status"], row["status_since"], row["is_status_older"]) == standing[key][-1]


def _standing(
    before: list[tuple[str, datetime, bool]], status: str, at: datetime, is_after_gap: bool
) -> list[tuple[str, datetime, bool]]:
    """The last known status of a key, and the present one; each with its beginning."""
    if before and before[-1][0] == status:
        return before
    if before and before[-1][0] == "UNKNOWN":
        known = before[:-1]
        return known if known and known[-1][0] == status else [(status, at, True)]
    present = (status, at, is_after_gap)
    return [*before, present] if status == "UNKNOWN" else [present]


def taken(rows: pa.Table, numbers: Any) -> list[Row]:
    rows_taken: list[Row] = rows.take(pa.array(numbers, pa.int64())).to_pylist()
    return rows_taken
