"""External groups as a user names them: NAME=spark:PATH."""

from __future__ import annotations

import re
from typing import NamedTuple

from streaming.tables.locations import local_path

_NAMED = re.compile(r"([^=]+)=([a-z]+):(.+)", re.DOTALL)
FORM = "NAME=spark:PATH"
_SCHEMES = ("file", "s3", "s3a", "gs", "az", "abfs", "abfss")


class ExternalGroup(NamedTuple):
    """An external group: its id, and the place of its checkpoint."""

    group_id: str
    location: str

    @classmethod
    def parse(cls, text: str) -> ExternalGroup:
        """Parse NAME=spark:PATH; the path may be an address of an object store.

        >>> ExternalGroup.parse("orders-etl=spark:s3a://lake/checkpoints/orders")
        ExternalGroup(group_id='orders-etl', location='s3a://lake/checkpoints/orders')

        Raises:
            ValueError: the text has another form, or names another program than Spark.
        """
        match = _NAMED.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not {FORM}")
        group_id, program, location = match.groups()
        if program != "spark":
            reason = "; docs/external.md says why Flink is not" if program == "flink" else ""
            raise ValueError(f"{text!r}: only checkpoints of spark can be read{reason}")
        scheme, is_address, _ = location.partition("://")
        if (is_address and scheme not in _SCHEMES) or location.startswith("dbfs:"):
            raise ValueError(
                f"{text!r}: {scheme.split(':')[0]} is not one of {', '.join(_SCHEMES)}"
            )
        path = local_path(location)
        return cls(group_id, location if path is None else str(path.absolute()))
