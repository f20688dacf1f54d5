"""The parameters of tests that run with both engines."""

from __future__ import annotations

from typing import Final

import pytest

SPARK_ENGINE: Final = pytest.param("spark", marks=(pytest.mark.spark, pytest.mark.long))
"""A micro-batch of the engine `spark` takes seconds."""

ENGINES: Final = ("driver", SPARK_ENGINE)
"""For the fixture `engine_session`."""
