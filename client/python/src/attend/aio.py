"""The client for asyncio: the surface of Client, awaited."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
)

import grpc
import grpc.aio

from attend import _calls
from attend._requests import attend_request, open_request
from attend._stream import StreamReader
from attend.aio_session import AsyncSession
from attend.client import LIFETIME
from attend.connection import Attempts, Connection, Retry, Tls
from attend.errors import AttendError, from_rpc
from attend.models import Logging, Model, ModelState, ServerStatistics, Verification
from attend.results import AttendResult, Block, Summary

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from attend._keywords import AttendKeywords, Rows, SessionKeywords

T = TypeVar("T")


class AsyncClient:
    """As Client, whose arguments and errors it has. Belongs to the event loop that is running when it is made."""

    def __init__(
        self,
        servers: Union[str, Sequence[str]] = "127.0.0.1:8001",
        *,
        timeout: float = 30.0,
        tls: Union[bool, Tls] = False,
        token: Union[None, str, Callable[[], str]] = None,
        metadata: Optional[Mapping[str, str]] = None,
        retry: Retry = Retry(),
    ) -> None:
        self._connection = Connection(servers, timeout, tls, token, dict(metadata or {}), retry)
        self._channel = self._connection.channel(grpc.aio)
        self._methods: Dict[str, Any] = {}

    async def close(self) -> None:
        await self._channel.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        await self.close()

    async def attend(
        self,
        x: Optional["Rows"] = None,
        *,
        timeout: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        **request: "Unpack[AttendKeywords]",
    ) -> AttendResult:
        """As Client.attend."""
        return await self._run(_calls.attend(attend_request(x, request)), timeout, metadata)

    def stream(
        self,
        x: Optional["Rows"] = None,
        *,
        assemble: bool = True,
        timeout: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        **request: "Unpack[AttendKeywords]",
    ) -> "AsyncAttendStream":
        """As Client.stream; iterate with `async for`."""
        message = attend_request(x, request)
        data = message.encode()
        attempts = self._connection.attempts(timeout)

        def start() -> Any:
            start_call = self._method("unary_stream", _calls.method("AttendStream"))
            return start_call(data, timeout=attempts.remaining(), metadata=self._connection.headers(metadata))

        return AsyncAttendStream(start, StreamReader(message, assemble), attempts, self._connection.name)

    def session(
        self,
        *,
        timeout: Optional[float] = None,
        lifetime: float = LIFETIME,
        metadata: Optional[Mapping[str, str]] = None,
        **session: "Unpack[SessionKeywords]",
    ) -> AsyncSession:
        """As Client.session; use it in an `async with`, which opens it."""
        request = open_request(session)
        start_call = self._method("stream_stream", _calls.method("Decode"))

        def start() -> Any:
            return start_call(timeout=lifetime, metadata=self._connection.headers(metadata))

        return AsyncSession(start, request, self._connection.attempts(timeout), self._connection.name)

    async def models(self, *, timeout: Optional[float] = None) -> List[Model]:
        return await self._run(_calls.list_models(), timeout)

    async def model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> Model:
        return await self._run(_calls.get_model(name, version), timeout)

    async def statistics(self, *, timeout: Optional[float] = None) -> ServerStatistics:
        return await self._run(_calls.statistics(), timeout)

    async def health(self, service: str = "", *, timeout: Optional[float] = None) -> bool:
        return await self._run(_calls.health(service), timeout)

    async def model_states(self, *, timeout: Optional[float] = None) -> List[ModelState]:
        return await self._run(_calls.list_model_states(), timeout)

    async def load_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> List[ModelState]:
        return await self._run(_calls.load_model(name, version), timeout)

    async def unload_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> List[ModelState]:
        return await self._run(_calls.unload_model(name, version), timeout)

    async def reload_models(self, *, timeout: Optional[float] = None) -> List[ModelState]:
        return await self._run(_calls.reload_models(), timeout)

    async def verify_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> Verification:
        return await self._run(_calls.verify_model(name, version), timeout)

    async def set_logging(
        self, level: Optional[str] = None, requests: Optional[str] = None, *, timeout: Optional[float] = None
    ) -> Logging:
        return await self._run(_calls.set_logging(level, requests), timeout)

    def _method(self, kind: str, name: str) -> Any:
        if name not in self._methods:
            self._methods[name] = getattr(self._channel, kind)(name)
        return self._methods[name]

    async def _run(
        self, call: "_calls.Call[T]", timeout: Optional[float], metadata: Optional[Mapping[str, str]] = None
    ) -> T:
        attempts = self._connection.attempts(timeout)
        while True:
            try:
                data = await self._method("unary_unary", call.method)(
                    call.request, timeout=attempts.remaining(), metadata=self._connection.headers(metadata)
                )
                return call.decode(data)
            except grpc.RpcError as status:
                error = from_rpc(status, self._connection.name, attempts.timeout)
                delay = attempts.delay_after(error)
                if delay is None:
                    raise error from None
                await asyncio.sleep(delay)


class AsyncAttendStream:
    """As AttendStream: an asynchronous iterator over the blocks of an answer."""

    def __init__(self, start: Callable[[], Any], reader: StreamReader, attempts: Attempts, server: str) -> None:
        self._start = start
        self._reader = reader
        self._attempts = attempts
        self._server = server
        self._call: Any = start()
        self._has_begun = False

    def __aiter__(self) -> AsyncIterator[Block]:
        return self

    async def __anext__(self) -> Block:
        try:
            while (data := await self._next_message()) is not None:
                block = self._reader.read(data)
                if block is not None:
                    return block
            self._reader.check_end()
        except AttendError:
            self.cancel()
            raise
        raise StopAsyncIteration

    async def result(self) -> AttendResult:
        async for _ in self:
            pass
        return self._reader.result()

    @property
    def summary(self) -> Optional[Summary]:
        return self._reader.summary

    def cancel(self) -> None:
        self._call.cancel()

    async def __aenter__(self) -> "AsyncAttendStream":
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.cancel()

    async def _next_message(self) -> Optional[bytes]:
        while True:
            try:
                data = await self._call.read()
                self._has_begun = True
                return None if data is grpc.aio.EOF else data
            except grpc.RpcError as status:
                error = from_rpc(status, self._server, self._attempts.timeout)
                delay = None if self._has_begun else self._attempts.delay_after(error)
                if delay is None:
                    raise error from None
                await asyncio.sleep(delay)
                self._call = self._start()
