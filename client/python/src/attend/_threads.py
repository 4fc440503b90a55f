"""Waiting of the sync client: for calls and between them, and the queue and the thread of a Session. _tasks.py has the same for
asyncio."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import Any, Callable, Generic, Iterator, Optional, Tuple, TypeVar

import grpc

T = TypeVar("T")
LOOK_SECONDS = 0.5
Connectivity = grpc.ChannelConnectivity
Lock = threading.Lock


def finished(answer: bytes) -> bytes:
    """Returns the answer of a unary call, for which gRPC has waited."""
    return answer


def next_message(call: Any) -> Optional[bytes]:
    """Waits for the next message of a stream; None at its end."""
    data: Optional[bytes] = next(call, None)
    return data


def begun(begin: Callable[[], Any]) -> Any:
    """Returns the call that begin() begins on a thread of its own: an interrupt (Ctrl-C) reaches only the caller, not the locks that
    gRPC has meanwhile. A call that has begun when the caller is interrupted is cancelled."""
    ended: "queue.SimpleQueue[Tuple[Any, Optional[BaseException]]]" = queue.SimpleQueue()
    lock, has_left = threading.Lock(), threading.Event()

    def run() -> None:
        try:
            call = begin()
        except BaseException as error:
            ended.put((None, error))
            return
        with lock:
            if not has_left.is_set():
                ended.put((call, None))
                return
        call.cancel()

    try:
        threading.Thread(target=run, name="attend-begin", daemon=True).start()
        call, error = ended.get()
    except BaseException:
        with lock:
            has_left.set()
        with contextlib.suppress(queue.Empty):  # it had begun, and nobody will have it
            call, error = ended.get_nowait()
            if error is None:
                threading.Thread(target=call.cancel, name="attend-begin", daemon=True).start()
        raise
    if error is not None:
        raise error
    return call


class Line:
    """A channel, and waiting for it between calls. gRPC connects it only while its state is watched, or a call waits for it.
    Thread-safe."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.channel = self._channel = make()
        self._lock = Lock()
        self._is_closed = threading.Event()

    def check(self) -> None:
        """Any thread may use it."""

    def pause(self, seconds: float) -> None:
        """Waits `seconds`, or until the channel is closed. Meanwhile a channel without a connection makes one."""
        deadline = time.monotonic() + seconds
        with self._states(deadline):
            self._is_closed.wait(_until(deadline))

    def look(self, timeout: float) -> None:
        """Waits until a channel that is connecting is connected, at most `timeout` or half a second."""
        deadline = time.monotonic() + min(LOOK_SECONDS, timeout)
        if not self._is_closed.is_set():
            with self._states(deadline) as states, contextlib.suppress(queue.Empty):
                # CONNECTING: the attempt may have begun before the server was back, and its failure be yet to come.
                while states.get(timeout=_until(deadline)) in (Connectivity.CONNECTING, Connectivity.TRANSIENT_FAILURE):
                    pass

    def close(self) -> None:
        """Closes the channel."""
        self._is_closed.set()
        with self._lock:
            self._channel.close()

    @contextlib.contextmanager
    def _states(self, deadline: float) -> "Iterator[queue.SimpleQueue[Any]]":
        """The states of the channel while somebody looks at it; none when it is closed."""
        states: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        has_begun = threading.Event()

        def note(state: Any) -> None:
            states.put(state)
            has_begun.set()

        with self._lock:
            if not self._is_closed.is_set():
                # gRPC's thread would end with an error if the channel were closed before it begins, or with try_to_connect.
                self._channel.subscribe(note)
                has_begun.wait(_until(deadline))
        try:
            yield states
        finally:
            self._channel.unsubscribe(note)


def _until(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


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
