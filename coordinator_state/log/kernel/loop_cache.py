"""The cache of compiled loops between processes.

Numba uses the first writable of these folders:

1. the folder in `NUMBA_CACHE_DIR`;
2. `__pycache__` beside the file;
3. the user's cache folder.

The first and the last may contain loops of several releases. They also serve a program in an
archive, which Spark unpacks at a different path for each application. So there the key is a hash of
this package's sources, not their path.

Only this module uses private parts of Numba (`_CacheLocator`, `_locator_classes`, `_cache`).
`njit(cache=True)` and `NUMBA_CACHE_LOCATOR_CLASSES` are public, but the variable applies to all
loops of a process, also to those of other packages, and a damaged file fails each call.

Source: numba/core/caching.py of Numba 0.68, whose own locator for archives ignores
`NUMBA_CACHE_DIR` and fails where it cannot write.
"""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba.core import caching, config
from numba.misc.appdirs import AppDirs

from coordinator_state.log.kernel_sources import kernel_sources, loops_folder


class _FolderLocator(caching._CacheLocator):
    """Keeps loops in a separate folder for each version of the sources."""

    def __init__(self, function: Callable[..., Any], file: str, root: str) -> None:
        self._py_file = file
        self._line = function.__code__.co_firstlineno
        self._path = f"{root}/{loops_folder()}"

    @classmethod
    @abstractmethod
    def root(cls) -> str:
        """Return the parent folder; empty if there is none."""

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _FolderLocator | None:
        """Return the locator, None if its folder is not writable."""
        if not (root := cls.root()):
            return None
        locator = cls(function, file, root)
        try:
            locator.ensure_cache_path()  # type: ignore[no-untyped-call]
        except OSError:
            return None
        return locator

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return kernel_sources()

    def get_disambiguator(self) -> str:
        return str(self._line)


class _NamedFolderLocator(_FolderLocator):
    @classmethod
    def root(cls) -> str:
        return str(config.CACHE_DIR)  # type: ignore[attr-defined]


class _UserFolderLocator(_FolderLocator):
    @classmethod
    def root(cls) -> str:
        directories = AppDirs(appname="numba", appauthor=False)  # type: ignore[no-untyped-call]
        return str(directories.user_cache_dir)


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes: list[Any] = [  # noqa: RUF012
        _NamedFolderLocator,
        caching.InTreeCacheLocator,
        _UserFolderLocator,
    ]


def use_cache(loop: Any) -> None:
    """Let a compiled function load and store its machine code, if a folder is writable."""
    with suppress(RuntimeError):
        loop._cache = _LoopCache(loop.py_func)  # type: ignore[no-untyped-call]


class _LoopCache(caching.FunctionCache):
    """The cache of one loop; a loop that cannot be stored or loaded is compiled again.

    Raises:
        RuntimeError: the constructor found no writable folder.
    """

    _impl_class = _Implementation

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # noqa: BLE001 - a damaged pickle may raise anything
            # A damaged index would hide the loops that are stored later.
            with suppress(OSError):
                self.flush()  # type: ignore[no-untyped-call]
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        # The disk may be full, or another process may have damaged the index.
        with suppress(OSError, EOFError, ValueError, pickle.UnpicklingError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
