"""The browser that tests and pictures use."""

from __future__ import annotations

import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None,
    reason="Chromium is not installed (Debian's package chromium); what the server sends is tested "
    "without it in tests/unit/dashboard/test_dashboard.py",
)
FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    # It asks hosts of its own maker for updates otherwise.
    *("--disable-background-networking", "--disable-component-update"),
]
