"""Waiting of the client for asyncio: for calls and between them, and the queue and the task of an AsyncSession. _threads.py has
the same for the sync client."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, Awaitable, Callable, Coroutine, Generic, Optional, TypeVar

import grpc.aio

from attend._threads import LOOK_SECONDS, Connectivity
from attend.errors import Cancelled, FailedPrecondition

T = TypeVar("T")
Lock = contextlib.nullcontext  # between two awaits a task has the event loop for itself


async def finished(call: Awaitable[T]) -> T:
    """Waits for a call, or for a message of one. Cancelled if that is cancelled, CancelledError if the caller's task is."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.cancelled():
        raise Cancelled("the call was cancelled, or the client is closed")
    return task.result()


async def next_message(call: Any) -> Optional[bytes]:
    """Waits for the next message of a stream; None at its end."""
    data = await finished(call.read())
    return None if data is grpc.aio.EOF else data


async def _within(seconds: float, call: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """Waits for a call at most `seconds`; then it is cancelled, and not done. asyncio.wait_for, before Python 3.12, loses a
    cancellation that comes together with the result."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait([task], timeout=seconds)
    finally:
        if not task.done():
            task.cancel()
    return task


def begun(begin: Callable[[], Any]) -> Any:
    """Returns the call that begin() begins: no interrupt reaches a task within it."""
    return begin()


def _current_loop() -> asyncio.AbstractEventLoop:
    """Returns the event loop to which grpc.aio binds a channel: the one that runs, or that is set. RuntimeError without either."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.get_event_loop_policy().get_event_loop()


class Line:
    """A channel, and waiting between calls. grpc.aio connects it without being watched."""

    def __init__(self, make: Callable[[], Any]) -> None:
        try:  # outside a coroutine, the loop that the thread has set
            self._loop = _current_loop()
        except RuntimeError:
            raise FailedPrecondition("client: expected an event loop, found none: make it in a coroutine") from None
        self._is_closed = asyncio.Event()
        self.channel = self._channel = make()

    def check(self) -> None:
        """FailedPrecondition in another event loop than the one in which the client was made: gRPC would fail or hang."""
        if self._loop is not asyncio.get_running_loop():
            raise FailedPrecondition("client: expected the event loop in which it was made, found another: make a client for each")

    async def pause(self, seconds: float) -> None:
        """Waits `seconds`, or until the channel is closed."""
        await _within(seconds, self._is_closed.wait())

    async def look(self, timeout: float) -> None:
        """Waits until a channel that is connecting is connected, at most `timeout` or half a second."""
        deadline = time.monotonic() + min(LOOK_SECONDS, timeout)
        looking = (Connectivity.CONNECTING, Connectivity.TRANSIENT_FAILURE)
        while self._channel.get_state() in looking and time.monotonic() < deadline:
            await self.pause(0.01)

    async def close(self) -> None:
        """Closes the channel."""
        self._is_closed.set()
        await self._channel.close()


class Mailbox(Generic[T]):
    """An unbounded queue. Its iterator ends at the first None."""

    def __init__(self) -> None:
        self._queue: "asyncio.Queue[Optional[T]]" = asyncio.Queue()

    def put(self, item: Optional[T]) -> None:
        self._queue.put_nowait(item)

    async def get(self, timeout: float) -> Optional[T]:
        """Waits for an item, at most `timeout` seconds; then TimeoutError."""
        task = await _within(timeout, self._queue.get())
        if not task.done():
            raise TimeoutError
        return task.result()

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
