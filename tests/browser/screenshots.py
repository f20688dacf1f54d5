"""`python -m tests.browser.screenshots FOLDER`: pictures of the page for the README, from the demo.

They are taken when the demo's second incident has lasted for a while.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import ViewportSize, sync_playwright

from tests.support.browser.chromium import CHROMIUM, FLAGS
from tests.support.clients.installed_command import command_of

_PICTURES = {
    "overview": "c/demo/",
    "group": "c/demo/group?group=reports&span=15m",
}
_INCIDENT_S = 215
_SIZE: ViewportSize = {"width": 1280, "height": 800}


def main() -> None:
    """Take the pictures."""
    folder = Path(sys.argv[1])
    with subprocess.Popen(command_of("demo"), stderr=subprocess.PIPE, text=True) as demo:
        try:
            assert demo.stderr is not None
            line_of_address = next(line for line in demo.stderr if "the page is at" in line)
            began = time.monotonic()
            # What it goes on to say must not fill the pipe.
            for _ in demo.stderr:
                if time.monotonic() - began > _INCIDENT_S:
                    break
            _take(line_of_address.split()[-1], folder)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.communicate()


def _take(address: str, folder: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for name, path in _PICTURES.items():
            page = browser.new_page(viewport=_SIZE, timezone_id="UTC")
            page.goto(f"{address}{path}")
            if name == "group":
                page.locator(".charts figure").last.wait_for()
                page.locator(".strip li").first.wait_for()
                page.locator(".story li").first.wait_for()
            else:
                page.locator("svg.spark polyline").first.wait_for()
            page.screenshot(path=folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
