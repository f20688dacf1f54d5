"""Slashes in the names of a path, apart from those between its parts.

A WSGI server decodes a path before it is routed, so `payments%2Flag/status` and
`payments/lag/status` become the same. This keeps the encoded slashes until the parts are known.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes, urlsplit

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_ENCODED: Final = (("%25", "%2525"), ("%2F", "%252F"), ("%2f", "%252F"))


class KeptSlashes:
    """An application whose paths have `%2F` for a slash in a name, and `%25` for a percent sign."""

    def __init__(self, application: WSGIApplication) -> None:
        self._application = application

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        address = environ.get("REQUEST_URI")
        if address is None:
            path = environ.get("PATH_INFO", "").replace("%", "%25")
        else:
            raw = urlsplit(address).path if "://" in address else address.partition("?")[0]
            # A server may have the application below an address.
            raw = raw.removeprefix(quote(environ.get("SCRIPT_NAME", ""), encoding="latin-1"))
            for encoded, kept in _ENCODED:
                raw = raw.replace(encoded, kept)
            path = unquote_to_bytes(raw).decode("latin-1")
        return self._application({**environ, "PATH_INFO": path}, start_response)


def with_slashes(name: str) -> str:
    """A name of a path, with its slashes and percent signs.

    >>> with_slashes("payments%2Flag"), with_slashes("100%25")
    ('payments/lag', '100%')
    """
    return name.replace("%2F", "/").replace("%25", "%")
