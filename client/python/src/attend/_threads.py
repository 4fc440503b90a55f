"""Waiting of the sync client: for calls and between them, and the queue and the thread of a Session. _tasks.py has the same for
asyncio."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Callable, Generic, Optional, TypeVar

T = TypeVar("T")
Lock = threading.Lock


def finished(answer: bytes) -> bytes:
    """Returns the answer of a unary call, for which gRPC has waited."""
    return answer


def next_message(call: Any) -> Optional[bytes]:
    """Waits for the next message of a stream; None at its end."""
    data: Optional[bytes] = next(call, None)
    return data


def pause(channel: Any, seconds: float) -> None:
    """Waits `seconds`. Meanwhile a channel without a connection makes one: gRPC does so only while somebody looks at it."""

    def look(_: Any) -> None:
        pass

    channel.subscribe(look)
    try:
        time.sleep(seconds)
    finally:
        channel.unsubscribe(look)


class Mailbox(Generic[T]):
    """An unbounded queue. Its iterator ends at the first None."""

    def __init__(self) -> None:
        self._queue: "queue.SimpleQueue[Optional[T]]" = queue.SimpleQueue()

    def put(self, item: Optional[T]) -> None:
        self._queue.put(item)

    def get(self, timeout: float) -> Optional[T]:
        """Waits for an item, at most `timeout` seconds; then TimeoutError."""
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
    """Runs a function on a thread of its own."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=run, name="attend-session", daemon=True)
        self._thread.start()

    def ended_within(self, timeout: float) -> bool:
        self._thread.join(timeout)
        return not self._thread.is_alive()
