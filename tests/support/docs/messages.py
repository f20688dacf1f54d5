"""The texts that the program can show, as templates: collected from its syntax trees.

A template is the text of a literal. `HOLE` stands for each value that is put into it, whether by
an f-string or by `%(name)s`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

HOLE: Final = "\0"
_LOGGED: Final = {"warning", "error", "exception", "critical"}
_WRITTEN: Final = {"write_warning", "write_error", "fail"}
_OTHER_ERRORS: Final = {"UsageError", "BadParameter", "TransientFailure", "KafkaConnectionError"}
"""Errors that are also returned, and do not derive from ConfigurationError."""

Assigned = dict[str, list[ast.expr]]


class Message(NamedTuple):
    """A template, and the place in the source that shows it."""

    template: str
    place: str


def template_of(text: str) -> str:
    """Return a text as a template: without holes and punctuation at its ends.

    >>> template_of("<host> answered <code> at <time><hint>").replace(HOLE, "_")
    'answered _ at'
    >>> template_of("%(job)s failed (%(error)s); retrying").replace(HOLE, "_")
    'failed (_); retrying'
    """
    text = re.sub(r"<[^<>]*>|%\(\w+\)[\d.,]*[a-z]", HOLE, text)
    text = re.sub(rf"{HOLE}+", HOLE, " ".join(text.split()))
    return text.strip(f"{HOLE} :;,.")


def all_templates(package: Path) -> set[str]:
    """The template of each string in the modules of a package."""
    return {
        template_of(text)
        for _, module in _modules(package)
        for node in ast.walk(module)
        if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp))
        for text in _texts(node, {})
    }


def shown_messages(package: Path) -> Iterator[Message]:
    """Every text that is raised, logged as a warning or error, or written as one.

    A text without a word of its own, which passes on that of another error, is left out.
    """
    modules = list(_modules(package))
    errors = _error_classes(module for _, module in modules)
    for file, module in modules:
        for argument, assigned in _arguments(module, errors):
            for text in _texts(argument, assigned):
                template = template_of(text)
                if re.search(r"[A-Za-z]{2}", template):
                    place = f"{file.relative_to(package.parent)}:{argument.lineno}"
                    yield Message(template, place)


def _modules(package: Path) -> Iterator[tuple[Path, ast.Module]]:
    for file in sorted(package.rglob("*.py")):
        yield file, ast.parse(file.read_text())


def _error_classes(modules: Iterable[ast.Module]) -> set[str]:
    """The classes that derive from ConfigurationError, and `_OTHER_ERRORS`."""
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    }
    found = {"ConfigurationError", *_OTHER_ERRORS}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def _arguments(module: ast.Module, errors: set[str]) -> Iterator[tuple[ast.expr, Assigned]]:
    """The argument with the text of each call that shows one, and the names it may use."""
    constants = _assignments(module.body)
    inside: dict[ast.AST, Assigned] = {}
    for function in ast.walk(module):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assigned = constants | _assignments(ast.walk(function))
            inside |= dict.fromkeys(ast.walk(function), assigned)
    raised = {node.exc for node in ast.walk(module) if isinstance(node, ast.Raise)}
    of_classes = {
        call
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef) and node.name in errors
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "super().__init__"
    }
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        called = ast.unparse(call.func)
        name = called.rpartition(".")[2]
        is_log = isinstance(call.func, ast.Attribute) and name in _LOGGED
        is_text = call in raised or call in of_classes or name in errors or name in _WRITTEN
        if name == "abort" or called == "logger.log":
            yield call.args[1], inside.get(call, {})
        elif is_log or is_text:
            yield call.args[0], inside.get(call, {})


def _assignments(nodes: Iterable[ast.AST]) -> Assigned:
    """The values of each name."""
    found: Assigned = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found.setdefault(node.target.id, []).append(node.value)
    return found


def _texts(node: ast.expr | ast.AST, assigned: Assigned) -> list[str]:
    """The texts that an expression can have, with `<>` for each value in them."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else ["<>"]
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "<>" for part in node.values]
        return ["".join(map(str, parts))]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body, assigned), *_texts(node.orelse, assigned)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        rights = _texts(node.right, assigned)
        return [left + right for left in _texts(node.left, assigned) for right in rights]
    if isinstance(node, ast.Name):
        return [text for one in assigned.get(node.id, []) for text in _texts(one, {})] or ["<>"]
    return ["<>"]
