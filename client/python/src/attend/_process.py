"""Objects that belong to the process that made them. A child that fork() made has them too, but not the threads of gRPC, and their
connection is its parent's: to use or to free them there would never end, or would end the calls of the parent."""

from __future__ import annotations

import atexit
import ctypes
import os
import weakref
from typing import Any, Set

from attend.errors import FailedPrecondition

_owned: "weakref.WeakSet[Any]" = weakref.WeakSet()
_has_copied_calls = False


def _become_child() -> None:
    global _has_copied_calls
    add_reference = ctypes.pythonapi.Py_IncRef
    add_reference.argtypes, add_reference.restype = [ctypes.py_object], None
    for owned in _owned:
        add_reference(owned)
    makers = [getattr(owned, "_maker", None) for owned in _owned]  # None: fork() came between Maker() and its assignment
    _has_copied_calls = _has_copied_calls or any(maker is not None and maker.calls for maker in makers)


if hasattr(os, "register_at_fork"):  # where there is fork()
    os.register_at_fork(after_in_child=_become_child)


def check_process() -> None:
    """FailedPrecondition in a process where gRPC would hang."""
    if _has_copied_calls:
        raise FailedPrecondition(
            "a call, a session or a stream was under way when fork() made this process, and gRPC cannot be used in it: "
            "fork before, or start the process with spawn"
        )


@atexit.register
def _close_all() -> None:
    """Closes what the program has not: gRPC's channels could wait for ever when the interpreter frees them at its end."""
    for owned in list(_owned):
        maker = getattr(owned, "_maker", None)
        if maker is not None and maker.ends_with_process:
            owned.close()


class Maker:
    """Knows which process made `owned`, and is its attribute `_maker`. A child of that process never frees `owned`."""

    def __init__(self, owned: Any, what: str) -> None:
        self._what = what
        self._process = os.getpid()
        self.ends_with_process = False
        """Whether `owned` is closed when the interpreter ends; not before `owned` is whole."""
        self.calls: Set[object] = set()
        """The calls of `owned` that are under way. Adding and removing one needs no lock, which fork() could copy locked."""
        _owned.add(owned)

    @property
    def is_here(self) -> bool:
        """Whether it is this process."""
        return self._process == os.getpid()

    def check(self) -> None:
        """FailedPrecondition in another process."""
        if not self.is_here:
            raise FailedPrecondition(f"the {self._what} was made in another process: make one after the fork")
