"""Deadlines and retries of both clients."""

from __future__ import annotations

import random
import time
from typing import Optional

from attend.errors import AttendError, ResourceExhausted, Unavailable

MAX_ATTEMPTS = 5
"""The most attempts of a call."""
INITIAL_BACKOFF = 0.1
"""The seconds after the first failed attempt; they double with each further one."""
RETRY_TOKENS = 1000
"""The retry budget of a client. No call is repeated while half of it or less is left."""

# The methods that are retried. They change nothing on the server. Decode is left out: a session cannot be repeated.
REPEATABLE = frozenset(
    f"/attention.v1.AttentionService/{name}"
    for name in ("Attend", "AttendStream", "ListModels", "GetModel", "GetStatistics", "ListModelStates")
) | {"/grpc.health.v1.Health/Check"}


class Budget:
    """The retry budget of one client: it stops retries while most calls fail, when they would only add to the load."""

    def __init__(self) -> None:
        self._tokens = RETRY_TOKENS

    def count(self, may_be_repeated: bool) -> bool:
        """Counts an attempt: one that failed and may be repeated takes 1, any other gives 1 back. Returns whether calls may be
        repeated."""
        self._tokens = min(RETRY_TOKENS, max(0, self._tokens + (-1 if may_be_repeated else 1)))
        return self._tokens > RETRY_TOKENS / 2


class Attempts:
    """The deadline and the retries of one call. client/README.md describes the retry policy."""

    def __init__(self, may_repeat: bool, timeout: float, budget: Budget) -> None:
        self.timeout = timeout
        self._may_repeat = may_repeat
        self._budget = budget
        self._deadline = time.monotonic() + timeout
        self._failed = 0

    def remaining(self) -> float:
        """Returns the seconds until the deadline, at least 0."""
        return max(0.0, self._deadline - time.monotonic())

    def succeeded(self) -> None:
        """Counts an attempt that succeeded."""
        self._budget.count(False)

    def delay_after(self, error: AttendError) -> Optional[float]:
        """Returns the seconds until the next attempt, or None if there must be none."""
        delay = self._pause_after(error) if self._may_repeat else None
        allows = self._budget.count(delay is not None)
        self._failed += 1
        return delay if allows and self._failed < MAX_ATTEMPTS and delay is not None and delay < self.remaining() else None

    def _pause_after(self, error: AttendError) -> Optional[float]:
        if not isinstance(error, (Unavailable, ResourceExhausted)):
            return None
        if "grpc-retry-pushback-ms" in error.trailers or isinstance(error, ResourceExhausted):
            return error.retry_after
        return INITIAL_BACKOFF * 2.0**self._failed * random.uniform(0.8, 1.2)
