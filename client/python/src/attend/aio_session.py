"""Session for asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Type, TypeVar, Union

import grpc
import grpc.aio

from attend._actions import Action, Actions
from attend._keywords import StepKeywords, spelled_out
from attend._requests import Request
from attend._wire import MalformedMessage, Received
from attend.errors import AttendError, Cancelled, DeadlineExceeded, FailedPrecondition, Internal, from_rpc
from attend.results import SessionState, StepResult

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from attend._keywords import Rows

T = TypeVar("T")
_Message = Union[Received, AttendError]


class AsyncSession:
    """As Session, from AsyncClient.session(); `async with`, or open(), opens it. Tasks may act on different sequences side
    by side."""

    def __init__(self, start: Callable[[], Any], opening: Request, timeout: float, server: str) -> None:
        self._start = start
        self._actions = Actions(opening)
        self._timeout = timeout
        self._server = server
        self._waiting: Dict[int, "asyncio.Queue[_Message]"] = {}
        self._broken: Optional[AttendError] = FailedPrecondition("the session is not open: use it in an async with")
        self._call: Any = None
        self._writing = asyncio.Lock()
        self._reader: Optional["asyncio.Task[None]"] = None
        self.resume_token = ""
        self.length = 0

    async def open(self) -> None:
        self._broken = None
        self._call = self._start()
        self._reader = asyncio.ensure_future(self._read())
        try:
            opened = await self._act(self._actions.open())
        except BaseException:
            self.cancel()
            raise
        self.resume_token = opened.resume_token
        self.length = opened.length

    @spelled_out(StepKeywords)
    async def step(self, hidden_states: Optional["Rows"] = None, **step: "Unpack[StepKeywords]") -> StepResult:
        return await self._act(self._actions.step(hidden_states, step))

    @spelled_out(StepKeywords)
    async def prefill(self, hidden_states: Optional["Rows"] = None, **step: "Unpack[StepKeywords]") -> StepResult:
        return await self._act(self._actions.step(hidden_states, {**step, "no_output": True}))

    async def fork(self, sequence: int = 0, new_sequence: Optional[int] = None) -> int:
        return await self._act(self._actions.fork(sequence, new_sequence))

    async def truncate(self, length: int, sequence: int = 0) -> SessionState:
        return await self._act(self._actions.truncate(sequence, length))

    async def release(self, sequence: int) -> SessionState:
        return await self._act(self._actions.release(sequence))

    async def close(self) -> None:
        if self._broken is not None:
            return
        self._broken = FailedPrecondition("the session was closed")
        await self._call.done_writing()
        assert self._reader is not None
        await asyncio.wait([self._reader], timeout=self._timeout)
        self._call.cancel()

    def cancel(self) -> None:
        self._break(Cancelled("the session was cancelled"))

    async def __aenter__(self) -> "AsyncSession":
        await self.open()
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        if error is None:
            await self.close()
        else:
            self.cancel()

    async def _act(self, action: Action[T]) -> T:
        if self._broken is not None:
            raise self._broken
        messages: "asyncio.Queue[_Message]" = asyncio.Queue()
        self._waiting[action.id] = messages
        try:
            return await asyncio.wait_for(self._exchange(action, messages), self._timeout)
        except asyncio.TimeoutError:
            late = DeadlineExceeded(f"server {self._server}: no answer within {self._timeout:g} s")
            raise self._break(late) from None
        except MalformedMessage as error:
            raise self._break(Internal(f"malformed answer: {error}")) from None
        finally:
            self._waiting.pop(action.id, None)

    async def _exchange(self, action: Action[T], messages: "asyncio.Queue[_Message]") -> T:
        try:
            async with self._writing:
                await self._call.write(action.encode())
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # The reader tells what the call ended with.
        while True:
            message = await messages.get()
            if isinstance(message, AttendError):
                raise message
            result = action.add(message)
            if isinstance(result, AttendError):
                raise result
            if result is not None:
                return result

    def _break(self, error: AttendError) -> AttendError:
        self._broken = self._broken or error
        for messages in self._waiting.values():
            messages.put_nowait(self._broken)
        if self._call is not None:
            self._call.cancel()
        return self._broken

    async def _read(self) -> None:
        error: AttendError = Internal("malformed answer: the stream ended before its last answer")
        try:
            while (data := await self._call.read()) is not grpc.aio.EOF:
                received = Received("DecodeResponse", data)
                messages = self._waiting.get(received.message.id)
                if messages is not None:
                    messages.put_nowait(received)
        except grpc.RpcError as status:
            error = from_rpc(status, self._server, self._timeout)
        except asyncio.CancelledError:
            error = Cancelled("the session was cancelled")
        except MalformedMessage as malformed:
            error = Internal(f"malformed answer: {malformed}")
        self._break(error)
