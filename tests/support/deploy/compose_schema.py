"""The schema of the Compose specification."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def check_schema(file: Path) -> subprocess.CompletedProcess[str]:
    """Hold a file to the Compose specification's own schema, which check-jsonschema ships."""
    command = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec")
    return subprocess.run([*command, file], capture_output=True, text=True, check=False)
