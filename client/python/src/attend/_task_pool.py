"""Runs tasks side by side, and forgets those that an interrupt has left."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import Any, Callable, List, Sequence, TypeVar

T = TypeVar("T")


class TaskPool:
    """Threads for the tasks of one caller at a time."""

    def __init__(self, threads: int) -> None:
        self._pool = concurrent.futures.ThreadPoolExecutor(threads)
        self._turn = threading.Condition()  # guards the next two
        self._attempt = 0  # the number of forget() calls; a task submitted before the last of them does not begin
        self._running = 0  # the number of tasks that run

    def run(self, tasks: Sequence[Callable[[], T]]) -> List[T]:
        """Runs all tasks at once. Raises the first error once all have ended."""
        futures = [self._pool.submit(self._begin, self._attempt, task) for task in tasks]
        concurrent.futures.wait(futures)
        return [future.result() for future in futures]

    def forget(self) -> None:
        """Waits for the tasks that an interrupted run() has begun. Its others never begin."""
        with self._turn:
            self._attempt += 1
            self._turn.wait_for(lambda: self._running == 0)

    def close(self) -> None:
        self._pool.shutdown()

    def _begin(self, attempt: int, task: Callable[[], Any]) -> Any:
        with self._turn:
            if attempt != self._attempt:
                raise concurrent.futures.CancelledError
            self._running += 1
        try:
            return task()
        finally:
            with self._turn:
                self._running -= 1
                self._turn.notify_all()
