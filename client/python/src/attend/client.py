"""The client: numpy arrays in, numpy arrays out; every call has a deadline. setup.py makes aio.py of this file."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

import grpc

from attend import _calls
from attend._keywords import AttendKeywords, SessionKeywords, spelled_out
from attend._requests import attend_request, open_request
from attend._stream import StreamReader
from attend.connection import Attempts, Connection, Tls
from attend.errors import AttendError, DeadlineExceeded, NotFound, Unavailable, from_rpc
from attend.models import Logging, Model, ModelState, ServerStatistics, Summary, Verification
from attend.results import AttendResult, Block
from attend.session import Session

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from attend._keywords import Rows

T = TypeVar("T")
LIFETIME = 24 * 3600.0


def next_message(call: Any) -> Optional[bytes]:
    data: Optional[bytes] = next(call, None)
    return data


class Client:
    """Thread-safe; calls of many threads share its connections.

    `server` is host:port, dns:///name:port, unix:/path, or several host:port (a list, or with commas), over which calls
    are spread in turn. `timeout` (seconds) is the deadline of a call that names none; a call never waits longer. `tls` is
    True (the usual roots) or a Tls. `token` goes along as a bearer token: a string, or a function that is asked with each
    call (see token_from_file). `metadata` goes along with every call. `retries` makes calls again that no server took and that
    change nothing. `options` and `interceptors` go to gRPC's channel as they are.

    Calls raise the AttendError that their status code has.
    """

    def __init__(
        self,
        server: Union[str, Sequence[str]] = "127.0.0.1:8001",
        *,
        timeout: float = 30.0,
        tls: Union[bool, Tls] = False,
        token: Union[None, str, Callable[[], str]] = None,
        metadata: Optional[Mapping[str, str]] = None,
        retries: bool = True,
        options: Sequence[Tuple[str, Any]] = (),
        interceptors: Sequence[Any] = (),
    ) -> None:
        self._connection = Connection(server, timeout, tls, token, dict(metadata or {}), retries, tuple(options))
        self._channel = self._connection.channel(grpc, interceptors)
        self._methods: Dict[str, Any] = {}

    @property
    def name(self) -> str:
        """The server, as it was given."""
        return self._connection.name

    def close(self) -> None:
        """Ends the connections, and calls that are under way."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.close()

    @spelled_out(AttendKeywords)
    def attend(
        self,
        hidden_states: Optional["Rows"] = None,
        *,
        timeout: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        **request: "Unpack[AttendKeywords]",
    ) -> AttendResult:
        """Attention of a model's layer, its whole stack, or bare query, key and value; the answer in one message.

        `hidden_states` is rows [B, S, E] or [T, E], or a list of arrays [n, E]; or else token_ids=, text=, or query=, key= and
        value=. AttendKeywords explains all keywords, OptionKeywords those that say what kind of attention.
        """
        return self._run(_calls.attend(attend_request(hidden_states, request)), timeout, metadata)

    @spelled_out(AttendKeywords)
    def attend_stream(
        self,
        hidden_states: Optional["Rows"] = None,
        *,
        assemble: bool = True,
        timeout: Optional[float] = None,
        metadata: Optional[Mapping[str, str]] = None,
        **request: "Unpack[AttendKeywords]",
    ) -> "AttendStream":
        """The same answer, bit for bit, block by block, each as soon as it is computed; arguments as of attend().

        Iterate over the blocks; result() puts them together, unless `assemble` is False.
        """
        message = attend_request(hidden_states, request)
        data = message.encode()
        name = _calls.method("AttendStream")
        attempts = self._connection.attempts(timeout, name)

        def start() -> Any:
            start_call = self._method("unary_stream", name)
            return start_call(data, timeout=attempts.remaining(), metadata=self._connection.headers(metadata))

        return AttendStream(start, StreamReader(message, assemble), attempts, self._connection.name)

    @spelled_out(SessionKeywords)
    def session(
        self,
        *,
        timeout: Optional[float] = None,
        lifetime: float = LIFETIME,
        metadata: Optional[Mapping[str, str]] = None,
        **session: "Unpack[SessionKeywords]",
    ) -> Session:
        """Sequences that grow step by step, whose keys and values the server keeps; use it in a `with`.

        `timeout` (seconds) is that of each action, `lifetime` that of the session. SessionKeywords has the others.
        """
        request = open_request(session)
        start_call = self._method("stream_stream", _calls.method("Decode"))

        def start(*requests: Iterator[bytes]) -> Any:
            return start_call(*requests, timeout=lifetime, metadata=self._connection.headers(metadata))

        return Session(start, request, self._connection.attempts(timeout).timeout, self._connection.name)

    def list_models(self, *, timeout: Optional[float] = None) -> List[Model]:
        """What is served, in order of name, then version."""
        return self._run(_calls.list_models(), timeout)

    def get_model(self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None) -> Model:
        """NotFound for what the server does not have; the highest version unless named."""
        return self._run(_calls.get_model(name, version), timeout)

    def get_statistics(self, *, timeout: Optional[float] = None) -> ServerStatistics:
        """What the server has done since it started, and what it is at."""
        return self._run(_calls.statistics(), timeout)

    def check_health(self, service: str = "", *, timeout: Optional[float] = None) -> bool:
        """Whether the server, or `service` ("model/NAME" for a model), is serving; NotFound for what it does not know."""
        return self._run(_calls.health(service), timeout)

    def wait_until_ready(self, service: str = "", *, timeout: Optional[float] = None) -> None:
        """Returns once the server, or `service`, is serving; DeadlineExceeded when it is not in time."""
        attempts = self._connection.attempts(timeout)
        while True:
            try:
                if self.check_health(service, timeout=max(0.001, attempts.remaining())):
                    return
                error: AttendError = Unavailable(f"server {self._connection.name}: {service or 'it'} is not serving")
            except (Unavailable, NotFound, DeadlineExceeded) as failure:
                error = failure
            if attempts.remaining() <= 0.1:
                raise DeadlineExceeded(f"not ready within {attempts.timeout:g} s: {error.message}")
            time.sleep(0.1)

    def list_model_states(self, *, timeout: Optional[float] = None) -> List[ModelState]:
        """The models of the server's folder. Those below change it, where the server allows that (--admin-listen), and
        take as long as a load does: give them a timeout that it fits into."""
        return self._run(_calls.list_model_states(), timeout)

    def load_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> List[ModelState]:
        return self._run(_calls.load_model(name, version), timeout)

    def unload_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> List[ModelState]:
        return self._run(_calls.unload_model(name, version), timeout)

    def reload_models(self, *, timeout: Optional[float] = None) -> List[ModelState]:
        """Looks at the folder now; what fails is in the answer."""
        return self._run(_calls.reload_models(), timeout)

    def verify_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None
    ) -> Verification:
        """What it costs in accuracy to keep the model's weights as they are served."""
        return self._run(_calls.verify_model(name, version), timeout)

    def set_logging(
        self, level: Optional[str] = None, requests: Optional[str] = None, *, timeout: Optional[float] = None
    ) -> Logging:
        """What the server logs from now on: lines from `level` ("debug", "info", "warning", "error") up, and those of
        `requests` ("none", "failed", "all"); as it is where not given."""
        return self._run(_calls.set_logging(level, requests), timeout)

    def _method(self, kind: str, name: str) -> Any:
        if name not in self._methods:
            self._methods[name] = getattr(self._channel, kind)(name)
        return self._methods[name]

    def _run(
        self, call: "_calls.Call[T]", timeout: Optional[float], metadata: Optional[Mapping[str, str]] = None
    ) -> T:
        attempts = self._connection.attempts(timeout, call.method)
        while True:
            try:
                data = self._method("unary_unary", call.method)(
                    call.request, timeout=attempts.remaining(), metadata=self._connection.headers(metadata)
                )
                attempts.succeeded()
                return call.decode(data)
            except grpc.RpcError as status:
                error = from_rpc(status, self._connection.name, attempts.timeout)
                delay = attempts.delay_after(error)
                if delay is None:
                    raise error from None
                time.sleep(delay)


class AttendStream:
    """A streamed answer: an iterator over its blocks. One thread's."""

    def __init__(self, start: Callable[[], Any], reader: StreamReader, attempts: Attempts, server: str) -> None:
        self._start = start
        self._reader = reader
        self._attempts = attempts
        self._server = server
        self._call: Any = start()
        self._has_begun = False

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        try:
            while (data := self._next_message()) is not None:
                block = self._reader.read(data)
                if block is not None:
                    return block
            self._reader.check_end()
        except AttendError:
            self.cancel()
            raise
        raise StopIteration

    def result(self) -> AttendResult:
        """All blocks put together, once the last has come, for which it waits."""
        for _ in self:
            pass
        return self._reader.result()

    @property
    def summary(self) -> Optional[Summary]:
        """What became of the request; None until the last block has come."""
        return self._reader.summary

    def cancel(self) -> None:
        self._call.cancel()

    def __enter__(self) -> "AttendStream":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        """Blocks that have not come are not sent any more."""
        self.cancel()

    def _next_message(self) -> Optional[bytes]:
        while True:
            try:
                data = next_message(self._call)
                if not self._has_begun:
                    self._attempts.succeeded()
                self._has_begun = True
                return data
            except grpc.RpcError as status:
                error = from_rpc(status, self._server, self._attempts.timeout)
                delay = None if self._has_begun else self._attempts.delay_after(error)
                if delay is None:
                    raise error from None
                time.sleep(delay)
                self._call = self._start()
