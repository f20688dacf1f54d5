"""The choice between the engines of `run`."""

from __future__ import annotations

from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from streaming.errors import ConfigurationError
from streaming.run.settings import EngineOption
from streaming.tables.locations import local_path

_S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})


class EngineChoice(NamedTuple):
    """An engine, and the reason for it."""

    engine: Literal["driver", "spark"]
    reason: str


def choose_engine(engine: EngineOption, *, master: str, tables: str) -> EngineChoice:
    """Choose the engine of a run.

    `auto` is `spark` only where every executor can write the tables: on a cluster, with tables in a
    store.

    >>> choose_engine("auto", master="local[2]", tables="tables")
    EngineChoice(engine='driver', reason='the master is local')
    >>> choose_engine("auto", master="yarn", tables="hdfs://nn/tables").engine
    'spark'

    Raises:
        ConfigurationError: the engine cannot write these tables.
    """
    is_s3 = urlsplit(tables).scheme in _S3_SCHEMES
    if engine == "spark" and is_s3:
        raise ConfigurationError(
            f"--engine spark cannot write {tables}: on S3, Delta Lake on Spark does not notice a "
            "commit of another process; use --engine driver, or tables in another store"
        )
    if engine != "auto":
        return EngineChoice(engine, "--engine names it")
    if master.startswith("local"):
        return EngineChoice("driver", "the master is local")
    if local_path(tables) is not None:
        return EngineChoice("driver", "executors may not have the local folder of the tables")
    if is_s3:
        return EngineChoice("driver", "on S3, Delta Lake on Spark is not safe beside other writers")
    return EngineChoice("spark", "the master is a cluster")
