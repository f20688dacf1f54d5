"""The option `--tables` of commands that serve several clusters."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from streaming.cli.options import option, require_location
from streaming.tables.locations import local_path

_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]*)=(.+)", re.DOTALL)


def _require_locations(
    ctx: click.Context, parameter: click.Parameter, folders: tuple[str, ...]
) -> tuple[str, ...]:
    for given in folders:
        named = _NAMED.fullmatch(given)
        require_location(ctx, parameter, named[2] if named else given)
    return folders


clusters_option = option(
    "--tables",
    callback=_require_locations,
    type=click.Path(),
    multiple=True,
    required=True,
    metavar="[NAME=]DIR",
    help="Tables folder of a cluster; repeatable. NAME defaults to tables if there is one folder, "
    "and to the last part of the path if there are several.",
)


def opened_clusters(folders: Sequence[str]) -> dict[str, str]:
    """Tables folders by cluster name; each of them can be read.

    Raises:
        ConfigurationError: a folder cannot be read.
        click.UsageError: two folders have the same name.
    """
    from streaming.tables.reader import TableReader

    clusters = clusters_of(folders)
    for folder in clusters.values():
        TableReader(folder)
    return clusters


def clusters_of(folders: Sequence[str]) -> dict[str, str]:
    """Tables folders by cluster name.

    A single folder needs no name. Of several, one without a name has that of its folder, with as
    many parent folders as make it different from the others.

    >>> clusters_of(["a/tables", "b/tables", "prod=/data"])
    {'a-tables': 'a/tables', 'b-tables': 'b/tables', 'prod': '/data'}

    Raises:
        click.UsageError: two folders have the same name.
    """
    folder_by_name: dict[str, str] = {}
    paths = [_path_of(given) for given in folders if _NAMED.fullmatch(given) is None]
    for given in folders:
        named = _NAMED.fullmatch(given)
        name, folder = named.groups() if named else (_name_of(_path_of(given), paths), given)
        if name in folder_by_name:
            raise click.UsageError(
                f"two --tables folders have the name {name}: give each another name with NAME=DIR"
            )
        folder_by_name[name] = folder
    return folder_by_name


def _path_of(folder: str) -> list[str]:
    path = folder if local_path(folder) is None else str(local_path(folder))
    return [re.sub(r"[^A-Za-z0-9_.-]", "-", part) for part in path.split("/") if part]


def _name_of(path: list[str], paths: Sequence[list[str]]) -> str:
    if len(paths) == 1:
        return "tables"
    parts = 1
    while parts < len(path) and sum(other[-parts:] == path[-parts:] for other in paths) > 1:
        parts += 1
    return "-".join(path[-parts:]) or "tables"
