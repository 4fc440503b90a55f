"""What a Session waits with: threads. _tasks.py has the same for AsyncSession."""

from __future__ import annotations

import queue
import threading
from typing import Callable, Generic, Optional, TypeVar

T = TypeVar("T")
Lock = threading.Lock


class Mailbox(Generic[T]):
    """A queue without bounds. As an iterator, it ends with a None."""

    def __init__(self) -> None:
        self._queue: "queue.SimpleQueue[Optional[T]]" = queue.SimpleQueue()

    def put(self, item: Optional[T]) -> None:
        self._queue.put(item)

    def get(self, timeout: float) -> Optional[T]:
        """TimeoutError when nothing comes within `timeout` seconds."""
        try:
            return self._queue.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None

    def __iter__(self) -> "Mailbox[T]":
        return self

    def __next__(self) -> T:
        item = self._queue.get()
        if item is None:
            raise StopIteration
        return item


class Worker:
    """Runs a function beside its maker."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=run, name="attend-session", daemon=True)
        self._thread.start()

    def ended_within(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()
