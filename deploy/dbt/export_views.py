"""Write the computed views as Parquet files: `python export_views.py TABLES FOLDER [AS_OF]`.

All files are of one snapshot: the newest, or that of an earlier time or version. It needs the
package coordinator-state with the extra `streaming`, and starts no Spark.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from streaming import CoordinatorTables
from streaming.tables.schemas import ALL_TABLES
from streaming.views.definitions import VIEWS


def main(tables: str, folder: str, as_of: str | None = None) -> None:
    """Write one file for each view."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    snapshot = CoordinatorTables(tables, as_of=as_of)
    for view in VIEWS.keys() - {table.name for table in ALL_TABLES}:
        pq.write_table(snapshot.sql(f"FROM {view}").arrow, Path(folder, f"{view}.parquet"))


if __name__ == "__main__":
    main(*sys.argv[1:])
