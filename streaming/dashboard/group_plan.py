"""The page that plans a reset of a group: the offsets, the obstacles, the commands and the file."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from starlette.responses import RedirectResponse, Response

from coordinator_state.insight.group_events import EventName
from streaming.dashboard.rendered import Page, render_template
from streaming.dashboard.request import here, moment_of, moment_text, request
from streaming.errors import ConfigurationError
from streaming.plans.group_plan import GroupPlan
from streaming.plans.plan_file import plan_text
from streaming.plans.reset import (
    TopicSelection,
    reset_to_earliest_kept,
    reset_to_state,
    reset_to_time,
)
from streaming.tables.clock import utc_now
from streaming.tables.reader import TableReader
from streaming.views.history import history
from streaming.views.unknown_group import unknown_group

GOALS: Final = {
    "state": "its committed offsets at a moment",
    "time": "the records since a moment",
    "earliest": "the oldest kept records",
}
"""The new offsets that a plan can ask for; the options of `plan reset` have their descriptions."""
PLAN_FILE: Final = "plan.csv"
_MOST_REWINDS: Final = 1_000
_ONE_REWIND: Final = timedelta(seconds=5)


def page() -> Response | str:
    """Show or send the plan of the address; it begins with the newest committed offsets."""
    group_id = request.query_params.get("group", "")
    if request.at is not None:
        # A plan changes the offsets of now: the moment of a page is the state to go back to.
        at, request.at = request.at, None
        return RedirectResponse(here(at=None, to="state", moment=moment_text(at)), 302)
    snapshot = request.cluster.opened(None)
    goal = request.query_params.get("to", "state")
    goal = goal if goal in GOALS else "state"
    servers = request.query_params.get("servers", "").strip()
    is_file = request.query_params.get("format") == "csv"
    moment, plan, commands, fault = None, None, [], ""
    try:
        moment = _moment(snapshot.reader, group_id)
        if moment is not None or goal == "earliest":
            plan = _plan(snapshot.reader, group_id, goal, moment)
            commands = plan.commands(PLAN_FILE, servers or None)
    except ConfigurationError as error:
        if is_file:
            raise
        fault = str(error)
    text = plan_text(plan.to_offsets, with_groups=False) if plan is not None else ""
    if is_file:
        headers = {"Content-Disposition": f'attachment; filename="{PLAN_FILE}"'}
        return Response(text, media_type="text/csv", headers=headers)
    return render_template(
        "group_plan.html",
        snapshot=snapshot,
        group_id=group_id,
        goals=GOALS,
        goal=goal,
        moment=None if moment is None else moment_text(moment),
        servers=servers,
        plan=plan,
        commands=commands,
        lines=text.splitlines(),
        fault=fault,
    )


def _plan(reader: TableReader, group_id: str, goal: str, moment: datetime | None) -> GroupPlan:
    selection = TopicSelection.of(request.query_params.get("topics", "").replace(",", " ").split())
    if moment is None or goal == "earliest":
        plan = reset_to_earliest_kept(reader, group_id, selection)
    elif goal == "time":
        plan = reset_to_time(reader, group_id, moment, selection)
    else:
        plan = reset_to_state(reader, request.cluster.opened(moment).reader, group_id, selection)
    if plan is None:
        unknown = unknown_group(reader, group_id, all_groups="the overview", events="its page")
        raise ConfigurationError(unknown or f"{group_id} has no committed offsets")
    return plan


def _moment(reader: TableReader, group_id: str) -> datetime | None:
    """The moment of the address, by default the one before the last rewind or reset."""
    moment = moment_of("moment")
    if moment is None:
        return before_last_rewind(reader, group_id)
    if moment > utc_now():
        raise ConfigurationError(f"{moment_text(moment)} is in the future")
    return moment


def before_last_rewind(reader: TableReader, group_id: str) -> datetime | None:
    """The last whole second before the newest rewind or reset; None without one.

    Rewinds of several partitions shortly after each other count as one.
    """
    rewinds = history(
        reader,
        "group_events",
        group=group_id,
        events=[EventName.OFFSET_REWIND, EventName.OFFSET_RESET],
        limit=_MOST_REWINDS,
    )
    times = [at for at in rewinds.rows["record_timestamp"].to_pylist() if at is not None]
    if not times:
        return None
    first: datetime = times[-1]
    for at in reversed(times):
        if first - at > _ONE_REWIND:
            break
        first = at
    return (first - timedelta(milliseconds=1)).replace(microsecond=0)


PAGES = (Page("group/plan", "group_plan", page, is_costly=True),)
