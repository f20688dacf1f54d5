"""Addresses of static files with a hash of their content, so that browsers keep them for good."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from flask import Flask, Response, request

_FOREVER: Final = "public, max-age=31536000, immutable"


def add_hashes(app: Flask) -> None:
    """Put the hash of a static file into its address.

    A file that is asked for with its hash never changes. With another hash, which a page of an
    earlier release has, the browser asks again each time.
    """
    folder = Path(str(app.static_folder))

    @cache
    def hash_of(name: str) -> str:
        return sha256((folder / name).read_bytes()).hexdigest()[:16]

    def with_hash(endpoint: str, values: dict[str, Any]) -> None:
        if endpoint == "static":
            values["v"] = hash_of(values["filename"])

    def kept(response: Response) -> Response:
        is_file = request.endpoint == "static" and response.status_code in {200, 304}
        if is_file and request.args.get("v") == hash_of((request.view_args or {})["filename"]):
            response.headers["Cache-Control"] = _FOREVER
        return response

    app.url_defaults(with_hash)
    app.after_request(kept)
