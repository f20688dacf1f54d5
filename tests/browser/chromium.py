"""The browser that tests and pictures use."""

from __future__ import annotations

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    # It asks hosts of its own maker for updates otherwise.
    *("--disable-background-networking", "--disable-component-update"),
]
