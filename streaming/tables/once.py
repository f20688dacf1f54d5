"""Values of a snapshot that are computed at most once, by whichever thread asks first."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, overload

T = TypeVar("T")
SPENT: Final = "spent_s"
"""The attribute with the seconds that an instance took to compute its values.

A value that another one needs counts in both.
"""


class once(Generic[T]):
    """An attribute that a method computes; other threads wait for it.

    `functools.cached_property` has one lock for all instances of a class up to Python 3.11, so a
    slow snapshot would hold up the others; from 3.12 on it has none. The lock here is that of the
    instance, its attribute `lock`.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> once[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: Any, owner: type) -> once[T] | T:
        """The value; afterwards it is in the attributes of the instance, and this is not called."""
        if instance is None:
            return self
        with instance.lock:
            if self._name not in instance.__dict__:
                begun_s = time.monotonic()
                instance.__dict__[self._name] = self._compute(instance)
                took_s = time.monotonic() - begun_s
                instance.__dict__[SPENT] = instance.__dict__.get(SPENT, 0.0) + took_s
        value: T = instance.__dict__[self._name]
        return value
