"""Schemas that check-jsonschema ships: of the Compose specification, and of GitHub's files.

Importing that package takes seconds, so its files are read, with the validator that it uses.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from jsonschema_rs import validator_for

COMPOSE: Final = "compose-spec"


def schema_errors(schema_name: str, document: Any) -> list[str]:
    """What of a document does not fit a schema."""
    package = find_spec("check_jsonschema")
    assert package is not None
    assert package.origin is not None
    schemas = Path(package.origin).parent / "builtin_schemas" / "vendor"
    schema = json.loads((schemas / f"{schema_name}.json").read_text())
    return [error.message for error in validator_for(schema).iter_errors(document)]
