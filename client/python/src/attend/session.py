"""Sessions: sequences that grow step by step. setup.py makes aio_session.py of this file."""

from __future__ import annotations

import copy
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, NamedTuple, Optional, TypeVar, Union

import grpc

from attend._actions import Action, Actions
from attend._keywords import StepKeywords, spelled_out
from attend._process import Maker
from attend._requests import Request
from attend._threads import Line, Lock, Mailbox, Worker, begun
from attend._wire import MalformedMessage, Received
from attend.errors import (
    AlreadyExists,
    AttendError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    Internal,
    ResourceExhausted,
    from_rpc,
)
from attend.results import SessionState, StepResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from attend._keywords import Rows

T = TypeVar("T")
_Message = Union[Received, AttendError]


class Terms(NamedTuple):
    """The name of the server, and the times of a session in seconds: of each action, and of the whole."""

    server: str
    timeout: float
    lifetime: float


class Session:
    """Sequences that grow step by step, whose keys and values the server keeps. Client.session() makes it. Thread-safe: actions
    on different sequences may run side by side.

    Each action waits for its answer. An action that the server refuses leaves the session as it was. When the stream breaks, or an
    answer does not come in time, the session ends, and all later actions raise the same error; a session that was opened with
    `resume_ttl` can then be opened again with its `resume_token`.

    An action that is interrupted (Ctrl-C), or whose task is cancelled, may be done all the same: its tokens are then part of the
    sequence. The `length` of the next answer tells, and truncate() removes them.
    """

    def __init__(self, start: Callable[..., Any], opening: Request, terms: Terms, line: Line) -> None:
        self._call: Any = None
        self._maker = Maker(self, "session")
        self._start = start
        self._opening = opening
        self._is_opening = False
        self._is_cancelled = False
        self._server, self._timeout, self._lifetime = terms
        self._line = line
        self._lock = Lock()
        self._waiting: Dict[int, Mailbox[_Message]] = {}  # of the actions without a last message, interrupted ones among them
        self._requests: Mailbox[bytes] = Mailbox()
        self._broken: Optional[AttendError] = FailedPrecondition("the session is not open: use it in a with")
        self.resume_token = ""
        """The token that opens the session again after a break: keep it secret. Empty without resume_ttl."""
        self.length = 0
        """The number of tokens of sequence 0, as the last answer about it says."""
        self.max_message_bytes = 0
        """The maximum size of the message of an action. A larger one is not sent: ResourceExhausted. 0: an old server does not tell."""
        self._open()

    @property
    def broken(self) -> Optional[AttendError]:
        """The error that ended the session; None while it goes on."""
        return self._broken

    def _open(self) -> None:
        deadline = time.monotonic() + self._timeout
        if self._is_opening or self._broken is None:
            raise FailedPrecondition("open: expected a session that is not open, found an open one")
        self._is_opening = True
        self._is_cancelled = False
        try:
            self._line.look(self._timeout)  # an opening has one attempt
        finally:
            self._is_opening = False
        if self._is_cancelled:
            raise Cancelled("the session was cancelled")
        self._broken = None
        self._actions = Actions(self._opening)
        self._waiting = {}
        self._requests = Mailbox()
        self._maker.calls.add(self._requests)
        try:
            self._call = begun(self._begin)
            find, call = weakref.ref(self), self._call
            self._reader = Worker(lambda: _read(find, call))
            opened = self._act(self._actions.open(), deadline)
        except BaseException:
            self.cancel()
            raise
        self.resume_token = opened.resume_token
        self.max_message_bytes = opened.max_message_bytes

    def _begin(self) -> Any:
        return self._start(self._requests)

    @spelled_out(StepKeywords)
    def step(self, hidden_states: Optional["Rows"] = None, **step: "Unpack[StepKeywords]") -> StepResult:
        """Adds tokens to a sequence, and returns the output of their rows.

        The input is one of `hidden_states` [n, E], token_ids= [n], text=, and query= [n, H, D] with key= [n, Hkv, D] and value=
        [n, Hkv, Dv]. StepKeywords describes all keywords."""
        return self._act(self._actions.step(hidden_states, step))

    @spelled_out(StepKeywords)
    def prefill(self, hidden_states: Optional["Rows"] = None, **step: "Unpack[StepKeywords]") -> StepResult:
        """Adds tokens to a sequence without an output; keywords are those of step()."""
        return self._act(self._actions.step(hidden_states, {**step, "no_output": True}))

    def fork(self, sequence: int = 0, new_sequence: Optional[int] = None) -> int:
        """Makes a new sequence with the tokens of `sequence`. Returns its number: `new_sequence`, or the lowest that is free."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                return self._act(self._actions.fork(sequence, new_sequence), deadline)
            except AlreadyExists:  # a session that was resumed has sequences of before
                if new_sequence is not None or self._actions.is_full or time.monotonic() >= deadline:
                    raise

    def truncate(self, length: int, sequence: int = 0) -> SessionState:
        """Removes the tokens of a sequence from position `length` on."""
        return self._act(self._actions.truncate(sequence, length))

    def release(self, sequence: int) -> SessionState:
        """Removes a sequence, whose number is then free."""
        return self._act(self._actions.release(sequence))

    def close(self) -> None:
        """Ends the session, and frees its keys and values."""
        if not self._maker.is_here:
            return
        with self._lock:
            self._is_cancelled = True
            is_open = self._broken is None
            self._broken = self._broken or FailedPrecondition("the session was closed")
        if not is_open:
            return
        self._requests.put(None)
        if not self._reader.ended_within(self._timeout):
            self._call.cancel()
        self._maker.calls.clear()

    def cancel(self) -> None:
        """Breaks the stream. A session with `resume_ttl` can be resumed."""
        if self._maker.is_here:
            self._is_cancelled = True
            self._break(Cancelled("the session was cancelled"))

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        """Closes the session; after an exception, breaks it."""
        if error is None:
            self.close()
        else:
            self.cancel()

    def _act(self, action: Action[T], deadline: Optional[float] = None) -> T:
        self._maker.check()
        deadline = deadline or time.monotonic() + self._timeout
        self._check_open()
        data = self._encoded(action)
        messages: Mailbox[_Message] = Mailbox()
        with self._lock:
            self._check_open()
            self._waiting[action.id] = messages
        try:
            self._requests.put(data)
            while True:
                message = messages.get(max(0.0, deadline - time.monotonic()))
                if isinstance(message, AttendError):
                    raise message
                assert message is not None
                result = action.add(message)
                if isinstance(result, AttendError):
                    raise result
                if result is not None:
                    return result
        except TimeoutError:
            late = DeadlineExceeded(f"server {self._server}: no answer within {self._timeout:g} s, so the session has ended")
            raise self._break(late) from None
        except MalformedMessage as error:
            raise self._break(Internal(f"malformed answer: {error}")) from None

    def _check_open(self) -> None:
        if self._broken is not None:
            raise copy.copy(self._broken)

    def _encoded(self, action: Action[Any]) -> bytes:
        """Returns the message of an action. ResourceExhausted if it is too large: gRPC would end the stream, and with it the session."""
        data = action.encode()
        if 0 < self.max_message_bytes < len(data):
            raise ResourceExhausted(
                f"message of an action: expected at most {self.max_message_bytes} bytes (the server's flag --max-message-bytes), "
                f"found {len(data)}"
            )
        return data

    def _break(self, error: AttendError) -> AttendError:
        """Ends the session with `error`, unless it has ended. Returns the error that ended it.

        Each who raises that error has a copy: the traceback of an error keeps the requests of all who raised it."""
        with self._lock:
            self._broken = self._broken or error
            for messages in self._waiting.values():
                messages.put(copy.copy(self._broken))
        if self._call is not None:
            self._call.cancel()  # first: a server that sees the requests end closes the session
            self._requests.put(None)
        self._maker.calls.clear()
        return copy.copy(self._broken)

    def __del__(self) -> None:
        """Breaks the stream of a session that nobody has any more, so that the server frees its keys and values."""
        if self._call is not None and self._broken is None:
            self._call.cancel()
            self._requests.put(None)

    def _receive(self, data: bytes) -> None:
        received = Received("DecodeResponse", data)
        message = received.message
        with self._lock:
            messages = self._waiting.get(message.id)
            if messages is None:
                raise MalformedMessage(f"id: expected that of an action under way, found {message.id}")
            if message.HasField("result"):
                del self._waiting[message.id]
        if message.sequence == 0 and message.HasField("result") and message.result.code == 0:
            self.length = message.result.length
        messages.put(received)

    def _failed(self, status: grpc.RpcError) -> AttendError:
        error = from_rpc(status, self._server, self._lifetime)
        if isinstance(error, DeadlineExceeded):
            return DeadlineExceeded(f"server {self._server}: the session has ended with its lifetime of {self._lifetime:g} s")
        return error


def _read(find: "Callable[[], Optional[Session]]", call: Any) -> None:
    """Reads the stream beside the actions: gRPC cannot wait for a message with a timeout. Between messages nothing here has the
    session, which may end then."""
    failure: Optional[grpc.RpcError] = None
    error: AttendError = Internal("malformed answer: the stream ended before its last answer")
    try:
        for data in call:
            session = find()
            if session is None or session._call is not call:
                return
            session._receive(data)
            del session
    except grpc.RpcError as status:
        failure = status
    except MalformedMessage as malformed:
        error = Internal(f"malformed answer: {malformed}")
    session = find()
    if session is not None and session._call is call:  # else it has been opened again
        session._break(error if failure is None else session._failed(failure))
