"""Writes the generated pages; `--check` only names those that differ, and exits with status 1."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docsite.pages import REPOSITORY, differing_pages


def main() -> int:
    """Write or check the pages, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m docsite", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    differing = differing_pages(REPOSITORY)
    for path, text in differing.items():
        sys.stdout.write(f"{path} {'differs' if check else 'written'}\n")
        if not check:
            Path(REPOSITORY, path).write_text(text, encoding="utf-8")
    if differing and check:
        sys.stdout.write("Run `python -m docsite`, and commit the pages.\n")
    return int(bool(differing) and check)


if __name__ == "__main__":
    sys.exit(main())
