"""Runs of dbt on the package in deploy/dbt, with its output outside the repository."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.deploy.packages import deploy_packages

PACKAGE: Final = Path(__file__).parents[3] / "deploy" / "dbt"


@dataclass(frozen=True, slots=True)
class Dbt:
    """dbt with a folder for its output, and a project, which is the package by default."""

    folder: Path
    project: Path = PACKAGE

    @property
    def database(self) -> Path:
        """The file of DuckDB that models are written to."""
        return self.folder / "models.duckdb"

    def run(self, *command: str, tables: str, **variables: Any) -> subprocess.CompletedProcess[str]:
        """Run a command of dbt on a tables folder."""
        program: list[str | Path] = [deploy_packages() / "dbt", "--no-use-colors", *command]
        return subprocess.run(
            [
                *program,
                *("--project-dir", self.project, "--profiles-dir", PACKAGE),
                *("--vars", json.dumps(variables)),
            ],
            env={
                **os.environ,
                "COORDINATOR_STATE_TABLES": tables,
                "DBT_DUCKDB_PATH": str(self.database),
                "DBT_TARGET_PATH": str(self.folder / "target"),
                "DBT_LOG_PATH": str(self.folder / "logs"),
                # It would look for newer releases, and report its use.
                "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
                "DBT_VERSION_CHECK": "false",
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    def results(self) -> dict[str, str]:
        """The status of each node of the last run, by the node's name."""
        run_results = json.loads((self.folder / "target" / "run_results.json").read_text())
        return {result["unique_id"]: result["status"] for result in run_results["results"]}
