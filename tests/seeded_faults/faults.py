"""Small faults in source code: a comparison, a condition, a number or a call is changed.

The choice depends on the seed and on the code of each area, so two runs over the same code with
different tests try the same faults.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True, slots=True)
class Area:
    """Code that gets faults, and the tests that have to notice them, the fastest ones first."""

    name: str
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    share: int


AREAS: Final = (
    Area(
        "replay",
        ("coordinator_state/replay/*.py",),
        (
            *("unit/replay", "unit/records", "property/test_group_replay.py"),
            *("golden/test_share_state_replay.py", "property/test_apply_plan.py"),
        ),
        share=40,
    ),
    Area(
        "apply",
        ("coordinator_state/apply/*.py",),
        (
            *("unit/apply", "unit/engine", "unit/tables/test_past.py"),
            *("property/test_topics.py", "property/test_apply_plan.py", "property/test_past.py"),
        ),
        share=40,
    ),
    Area(
        "lag",
        ("streaming/lag/*.py", "coordinator_state/insight/*lag*.py"),
        (
            *("unit/lag", "unit/insight", "property/test_lag.py", "unit/views", "unit/served"),
            *("property/test_partition_statuses.py", "property/test_sample_runs.py"),
            *("unit/metrics", "unit/api", "unit/alerts"),
        ),
        share=40,
    ),
    Area(
        "status",
        (
            "coordinator_state/insight/*status*.py",
            "coordinator_state/insight/*facts*.py",
            "coordinator_state/insight/group_events.py",
            "streaming/alerts/*.py",
        ),
        (
            *("unit/insight", "unit/lag", "unit/alerts", "property/test_partition_statuses.py"),
            *("property/test_alert_states.py", "property/test_apply_plan.py", "unit/views"),
        ),
        share=30,
    ),
    Area(
        "writer",
        (
            "streaming/engine/*.py",
            "streaming/engine/driver/*.py",
            "streaming/tables/*writer*.py",
            "streaming/tables/delta.py",
            "streaming/tables/load_progress.py",
            "streaming/tables/merging.py",
            "streaming/tables/replacing.py",
        ),
        (
            *("unit/engine", "unit/tables", "unit/reload", "property/test_replacing.py"),
            *("property/test_apply.py", "unit/views"),
        ),
        share=25,
    ),
    Area(
        "source",
        ("streaming/source/*.py", "streaming/kafka/*.py"),
        ("unit/source", "unit/kafka", "property/test_text_columns.py", "unit/run"),
        share=25,
    ),
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Bytes of a source file that are replaced by others."""

    area: Area
    path: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def applied_to(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.before.split())} -> {self.after}"


def chosen_faults(repository: Path, count: int, seed: int) -> list[Fault]:
    """`count` faults, distributed over the areas by their shares; those of all areas alternate."""
    shares = sum(area.share for area in AREAS)
    chosen: list[tuple[float, Fault]] = []
    for area in AREAS:
        paths = sorted({path for glob in area.sources for path in repository.glob(glob)})
        possible = [fault for path in paths for fault in _faults(area, path, repository)]
        choose = random.Random(f"{seed} {area.name}")
        area_faults = choose.sample(
            possible, min(len(possible), round(count * area.share / shares))
        )
        chosen += [
            ((number + 0.5) / len(area_faults), fault) for number, fault in enumerate(area_faults)
        ]
    return [fault for _, fault in sorted(chosen, key=lambda placed: placed[0])]


def _faults(area: Area, path: Path, repository: Path) -> Iterator[Fault]:
    source = path.read_bytes()
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    for node in _executed(ast.parse(source)):
        if (after := _replacement(node)) is None:
            continue
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = source[start:end].decode()
        name = str(path.relative_to(repository))
        yield Fault(area, name, node.lineno, start, end, before, after)


_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_UNTESTED_CALLS: Final = ("logger", "warnings")
_UNTESTED_FIELDS: Final = ("annotation", "returns", "decorator_list", "slice")
_UNTESTED_NODES: Final = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)


def _replacement(node: ast.AST) -> str | None:
    """The code that replaces a node; None if the node cannot be changed."""
    changed: ast.expr
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators):
            changed = ast.Compare(left, [_COMPARISONS[type(operator)]()], comparators)
        case ast.BoolOp(op=operator, values=values):
            changed = ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            changed = operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            changed = ast.IfExp(test, orelse, body)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            changed = ast.BinOp(left, _OPERATORS[type(operator)](), right)
        case ast.Constant(value=bool(value)):
            changed = ast.Constant(not value)
        case ast.Constant(value=int(value)):
            changed = ast.Constant(value + 1)
        case ast.Expr(value=ast.Call(func=called)) if not _is_untested(called):
            return "pass"
        case ast.Continue():
            return "break"
        case _:
            return None
    return f"({ast.unparse(changed)})"


def _executed(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Nodes of code that tests can judge: no annotations, texts, errors or declarations."""
    for name, value in ast.iter_fields(node):
        if name in _UNTESTED_FIELDS:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, _UNTESTED_NODES) or _is_declaration(child):
                continue
            if isinstance(child, (ast.expr, ast.stmt)):
                yield child
            if isinstance(child, ast.AST):
                yield from _executed(child)


def _is_declaration(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg in ("strict", "slots", "frozen")


def _is_untested(called: ast.expr) -> bool:
    return isinstance(called, ast.Attribute) and ast.unparse(called.value) in _UNTESTED_CALLS
