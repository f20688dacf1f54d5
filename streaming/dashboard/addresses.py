"""Addresses of the shown page with other arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import quote, urlencode

from flask import request, url_for


def here(
    endpoint: str | None = None,
    /,
    *,
    fragment: str = "",
    kept: Collection[str] | None = None,
    **other: str | int | Sequence[str] | None,
) -> str:
    """The address of this page with changed arguments; None removes one, a list has several.

    Args:
        endpoint: another page of this cluster, to which the arguments are given.
        fragment: the id of the element to which the address leads.
        kept: the arguments of this page that the address has, too; all if None.
        other: the changed arguments.
    """
    path = quote(request.path) if endpoint is None else url_for(endpoint).partition("?")[0]
    given = request.args.to_dict(flat=False)
    known = given if kept is None else {name: given[name] for name in given if name in kept}
    view = {name: value for name, value in (known | other).items() if value is not None}
    return f"{path}?{urlencode(view, doseq=True)}{fragment and f'#{fragment}'}"
