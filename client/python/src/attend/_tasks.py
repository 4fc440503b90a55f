"""The queue and the task of an AsyncSession. _threads.py has the same for Session."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Callable, Coroutine, Generic, Optional, TypeVar

T = TypeVar("T")
Lock = contextlib.nullcontext  # between two awaits a task has the event loop for itself


class Mailbox(Generic[T]):
    """An unbounded queue. Its iterator ends at the first None."""

    def __init__(self) -> None:
        self._queue: "asyncio.Queue[Optional[T]]" = asyncio.Queue()

    def put(self, item: Optional[T]) -> None:
        self._queue.put_nowait(item)

    async def get(self, timeout: float) -> Optional[T]:
        """Waits for an item, at most `timeout` seconds; then TimeoutError."""
        try:
            return await asyncio.wait_for(self._queue.get(), timeout)
        except asyncio.TimeoutError:
            raise TimeoutError from None

    def __aiter__(self) -> "Mailbox[T]":
        return self

    async def __anext__(self) -> T:
        item = await self._queue.get()
        if item is None:
            raise StopAsyncIteration
        return item


class Worker:
    """Runs a coroutine function as a task."""

    def __init__(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._task = asyncio.ensure_future(run())

    async def ended_within(self, timeout: float) -> bool:
        await asyncio.wait([self._task], timeout=timeout)
        return self._task.done()
