"""Actions on a session as values: what to send, and what to make of the messages that answer. Both kinds of session run
them."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Callable, Generic, List, Mapping, Optional, Set, TypeVar, Union

from attend import models, results
from attend._answers import Assembler, check_sent, read_block
from attend._fields import integer
from attend._mirror import mirror
from attend._proto import message_class
from attend._requests import Request, step_request
from attend._tensors import TensorWriter
from attend._wire import MalformedMessage, Received
from attend.errors import AlreadyExists, AttendError, from_result

T = TypeVar("T")
_SEQUENCES = 65536  # numbers of sequences, 0 among them


class Action(Generic[T]):
    """One action, and the received part of its answer."""

    def __init__(
        self,
        request: Request,
        finish: Callable[["Action[T]", Any], T],
        parts: Optional[Assembler] = None,
        refused: Callable[[AttendError], None] = lambda _: None,
    ):
        self.id: int = request.message.id
        self.parts = parts
        self._request = request
        self._finish = finish
        self._refused = refused

    def encode(self) -> bytes:
        return self._request.encode()

    def add(self, received: Received) -> Union[None, T, AttendError]:
        """Takes a message. Returns the result, the server's error, or None before the last. MalformedMessage if it does not fit."""
        message = received.message
        for part in [message.part, *message.parts] if message.HasField("part") else message.parts:
            if self.parts is None:
                raise MalformedMessage("parts of an answer: expected none, found some")
            self.parts.add(read_block(received, part, self._request.home))
        if not message.HasField("result"):
            return None
        if message.result.code != 0:
            error = from_result(message.result)
            self._refused(error)
            return error
        check_sent(message.result, "usage")
        return self._finish(self, message.result)


class Actions:
    """Makes the actions of one session, and numbers them."""

    def __init__(self, opening: Request) -> None:
        self._opening = opening
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._sequences: Set[int] = {0}  # those that exist, or may exist once an action under way has ended

    @property
    def is_full(self) -> bool:
        """Whether no number is left for a new sequence."""
        return len(self._sequences) >= _SEQUENCES

    def open(self) -> Action[Any]:
        self._opening.message.id = next(self._ids)
        return Action(self._opening, lambda _, result: result)

    def step(self, hidden_states: Any, keywords: Mapping[str, Any]) -> Action[results.StepResult]:
        request = step_request(hidden_states, keywords)
        request.message.id = next(self._ids)
        step = request.message.step
        has_output = step.top_logits == 0 and not step.no_output
        opening = self._opening.message.open
        # A session that is resumed has the options of before.
        parts = Assembler(step, request.home, None if opening.resume_token else opening.options, has_output=has_output)
        return Action(request, lambda action, result: _step_result(action, result, has_output, step.top_logits), parts)

    def fork(self, sequence: int, new_sequence: Optional[int]) -> Action[int]:
        sequence = integer(sequence, "sequence")  # before a number is taken
        new_sequence = None if new_sequence is None else integer(new_sequence, "new_sequence")
        with self._lock:
            number = next(n for n in itertools.count(1) if n not in self._sequences) if new_sequence is None else new_sequence
            is_new = number not in self._sequences
            self._sequences.add(number)

        def refused(error: AttendError) -> None:
            if is_new and not isinstance(error, AlreadyExists):
                self._free(number)

        return self._plain(sequence, "fork", {"new_sequence": number}, lambda *_: number, refused)

    def truncate(self, sequence: int, length: int) -> Action[results.SessionState]:
        return self._plain(sequence, "truncate", {"length": integer(length, "length")}, _state)

    def release(self, sequence: int) -> Action[results.SessionState]:
        def released(action: Action[results.SessionState], result: Any) -> results.SessionState:
            self._free(sequence)
            return _state(action, result)

        return self._plain(sequence, "release", {}, released)

    def _free(self, number: int) -> None:
        with self._lock:
            self._sequences.discard(number)

    def _plain(
        self,
        sequence: int,
        kind: str,
        fields: Mapping[str, Any],
        finish: Callable[..., T],
        refused: Callable[[AttendError], None] = lambda _: None,
    ) -> Action[T]:
        sequence = integer(sequence, "sequence")
        message = message_class("DecodeRequest")(id=next(self._ids), sequence=sequence, **{kind: fields})
        return Action(Request(message, TensorWriter(), None), finish, refused=refused)


def _state(_: Any, result: Any) -> results.SessionState:
    return results.SessionState(result.length, mirror(result.usage))


def _step_result(action: Action[results.StepResult], result: Any, has_output: bool, most_logits: int) -> results.StepResult:
    assert action.parts is not None
    top_logits = mirror(result.top_logits) if result.HasField("top_logits") else None
    _check_top_logits(top_logits, most_logits)
    summary = mirror(result.summary)
    answer = action.parts.finish(summary) if has_output else None
    check_sent(result, "summary")
    return results.StepResult(
        output=answer.output if answer else None,
        top_logits=top_logits,
        tokens=_first(action.parts.tokens),
        weights=_first(answer.weights) if answer else None,
        log_sum_exp=_first(answer.log_sum_exp) if answer else None,
        top_weights=_first(answer.top_weights) if answer else None,
        length=result.length,
        usage=mirror(result.usage),
        summary=summary,
    )


def _check_top_logits(found: Optional[models.TopLogits], most: int) -> None:
    """Raises MalformedMessage unless a step that asks for the `most` largest logits has 1 or more; with 0, none."""
    ids, logits = (len(found.ids), len(found.logits)) if found is not None else (0, 0)
    if not 1 <= ids == logits <= most if most > 0 else found is not None:
        expected = f"1 to {most}" if most > 0 else "no"
        raise MalformedMessage(f"top_logits: expected {expected} ids and as many logits, found {ids} and {logits}")


def _first(values: List[T]) -> Optional[T]:
    return values[0] if values else None
