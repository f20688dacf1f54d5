"""One Spark session for all Spark tests: a JVM takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from streaming.session import build_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session that `run` itself uses."""
    session = build_session(warehouse=tmp_path_factory.mktemp("warehouse"))
    yield session
    session.stop()
