"""Objects that belong to the process that made them. A child that fork() made has them too, but not the threads of gRPC, and their
connection is its parent's: to use or to free them there would never end, or would end the calls of the parent."""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from attend.errors import FailedPrecondition

_owned: "weakref.WeakSet[Any]" = weakref.WeakSet()
_add_reference = ctypes.pythonapi.Py_IncRef
_add_reference.argtypes, _add_reference.restype = [ctypes.py_object], None


def _keep_for_ever() -> None:
    for owned in _owned:
        _add_reference(owned)


os.register_at_fork(after_in_child=_keep_for_ever)


class Maker:
    """The process that made `owned`. In a child, nothing frees `owned`."""

    def __init__(self, owned: Any, what: str) -> None:
        self._what = what
        self._process = os.getpid()
        _owned.add(owned)

    @property
    def is_here(self) -> bool:
        """Whether it is this process."""
        return self._process == os.getpid()

    def check(self) -> None:
        """FailedPrecondition in another process."""
        if not self.is_here:
            raise FailedPrecondition(f"the {self._what} was made in another process: make one after the fork")
