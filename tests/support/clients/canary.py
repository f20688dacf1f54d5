"""A secret that is easily found again, in every form that a text can give it."""

from __future__ import annotations

import re
import traceback
from base64 import b64decode
from collections.abc import Iterator
from urllib.parse import quote, unquote

CANARY = "Kanarienvogel"
"""A part of each secret; letters alone, so that `repr`, JSON and addresses leave it as it is."""
SECRET = f"s3cret:{CANARY}/+ü\"'\\"
NOT_UTF_8 = b"s3cret-\xff" + CANARY.encode() + b"-\xfe"

_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}")


def shows(text: str) -> bool:
    """Whether a text shows the canary: as it is, percent-encoded, as base64, hex or escapes.

    >>> from base64 import b64encode
    >>> shows(repr(SECRET)), shows(b64encode(SECRET.encode()).decode()), shows("none")
    (True, True, False)
    """
    return any(CANARY.lower() in form.lower() for form in _forms(text))


def _forms(text: str) -> Iterator[str]:
    yield text
    yield unquote(text)
    yield re.sub(
        r"\\x([0-9a-f]{2})|\\u00([0-9a-f]{2})|([0-9a-f]{2})[ :]?",
        lambda found: chr(int(next(filter(None, found.groups())), 16)),
        text,
        flags=re.IGNORECASE,
    )
    for word in _BASE64.findall(text):
        plain = word.replace("-", "+").replace("_", "/")
        for start in range(4):
            part = plain[start : start + (len(plain) - start) // 4 * 4]
            yield b64decode(part).decode("latin-1")


def texts_of(error: BaseException) -> Iterator[str]:
    """Everything that a log or a traceback could show of an error and of those behind it."""
    yield "".join(traceback.format_exception(error))
    shown: BaseException | None = error
    while shown is not None:
        yield from (str(shown), repr(shown), repr(shown.args))
        details = getattr(shown, "errors", None)
        yield repr(details()) if callable(details) else ""
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


def forms_of_a_user() -> list[str]:
    """The canary as a proxy's address may hold it: as password, as user, and what breaks a URL."""
    return [
        f"http://me:{CANARY}@proxy:3128",
        f"http://{CANARY}@proxy:3128",
        f"http://me:{quote('/')}{CANARY}@proxy:3128",
        f"http://me:a/{CANARY}@proxy:3128",
        f"http://me:a?{CANARY}@proxy:3128",
        f"socks5://me:{CANARY}@proxy",
        f"me:{CANARY}@proxy:3128",
        f"http://me:x@{CANARY}:y@proxy",
    ]
