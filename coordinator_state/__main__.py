"""The command `coordinator-state`, and `python -m coordinator_state`."""

from __future__ import annotations

import sys

from coordinator_state import require_program


def main() -> None:
    """Run the program; end with status 2 and one line if another package hides it."""
    try:
        require_program()
    except ImportError as error:
        sys.stderr.write(f"Error: {error}\n")
        raise SystemExit(2) from None
    from streaming.cli.main import main as run_program

    run_program()


if __name__ == "__main__":
    main()
