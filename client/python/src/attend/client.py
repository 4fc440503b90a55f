"""The client takes and returns numpy arrays; every call has a deadline. setup.py makes aio.py of this file."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

import grpc

from attend import _calls
from attend._attempts import Attempts
from attend._fields import seconds
from attend._keywords import AttendKeywords, SessionKeywords, spelled_out
from attend._requests import attend_request, open_request
from attend._process import Maker, check_process
from attend._stream import StreamReader
from attend._threads import Line, finished, next_message
from attend.connection import Connection, Tls
from attend.errors import AttendError, Cancelled, DeadlineExceeded, NotFound, Unavailable, from_rpc
from attend.models import Logging, Model, ModelState, ServerStatistics, Summary, Verification
from attend.results import AttendResult, Block
from attend.session import Session, Terms

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from attend._keywords import Rows

T = TypeVar("T")
Metadata = Optional[Mapping[str, Union[str, bytes]]]
LIFETIME = 24 * 3600.0


class Client:
    """Calls a server. Thread-safe; calls of many threads share its connections.

    `server` is host:port, dns:///name:port, unix:/path, or several host:port (a list, or with commas), to which calls go in
    turn. `timeout` is the deadline in seconds of a call that has no other. `tls` is True (gRPC's own root certificates) or a Tls.
    `token` is sent as a bearer token with every call: a string, or a function that returns one (see token_from_file); an empty one
    means none. `metadata` is sent with every call. With `retries`, a call that changes nothing on the server is made again when it
    fails with Unavailable, or with ResourceExhausted and a `retry_after`. `options` and `interceptors` are passed to gRPC's channel.

    A call that fails raises the AttendError of its status code. In a child process that fork() made, every call raises
    FailedPrecondition: the child needs a client of its own. It cannot have one if a call, a session or a stream was under way at
    the fork.
    """

    def __init__(
        self,
        server: Union[str, Sequence[str]] = "127.0.0.1:8001",
        *,
        timeout: float = 30.0,
        tls: Union[None, bool, Tls] = False,
        token: Union[None, str, Callable[[], str]] = None,
        metadata: Metadata = None,
        retries: bool = True,
        options: Sequence[Tuple[str, Any]] = (),
        interceptors: Sequence[Any] = (),
    ) -> None:
        check_process()
        self._maker = Maker(self, "client")
        self._connection = Connection(server, timeout, tls, token, metadata or {}, retries, tuple(options))
        self._line = Line(lambda: self._connection.channel(grpc, interceptors))
        self._channel = self._line.channel
        self._methods: Dict[str, Any] = {}
        self._is_closed = False
        self._maker.ends_with_process = True

    @property
    def name(self) -> str:
        """The server of the constructor, as one text."""
        return self._connection.name

    def close(self) -> None:
        """Closes the connections, and cancels the calls under way: they, and later ones, raise Cancelled."""
        if self._maker.is_here:
            self._is_closed = True
            self._line.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        self.close()

    @spelled_out(AttendKeywords)
    def attend(
        self,
        hidden_states: Optional["Rows"] = None,
        *,
        timeout: Optional[float] = None,
        metadata: Metadata = None,
        **request: "Unpack[AttendKeywords]",
    ) -> AttendResult:
        """Returns the output of a model's layer, of its whole stack, or of attention over query, key and value.

        The input is one of `hidden_states` ([B, S, E], [T, E] or a list of arrays [n, E]), token_ids=, text=, and query= with
        key= and value=. AttendKeywords describes all keywords, OptionKeywords those of the kind of attention. TypeError and
        ValueError for a request that cannot be sent; else the server's error.
        """
        return self._run(_calls.attend(attend_request(hidden_states, request)), timeout, metadata)

    @spelled_out(AttendKeywords)
    def attend_stream(
        self,
        hidden_states: Optional["Rows"] = None,
        *,
        assemble: bool = True,
        timeout: Optional[float] = None,
        metadata: Metadata = None,
        **request: "Unpack[AttendKeywords]",
    ) -> "AttendStream":
        """Returns an iterator over the blocks of the answer, each of which comes as soon as it is computed.

        The arguments and the bits of the answer are those of attend(). AttendStream.result() joins the blocks, unless `assemble`
        is False. Internal for a block that does not follow the one before it, and when rows are missing at the end.
        """
        message = attend_request(hidden_states, request)
        data = message.encode()
        name = _calls.method("AttendStream")
        attempts = self._connection.attempts(timeout, name)

        def start() -> Any:
            return self._start("unary_stream", name, data, attempts.remaining(), metadata)

        return AttendStream(start, StreamReader(message, assemble), attempts, self._connection.name, self._line)

    @spelled_out(SessionKeywords)
    def session(
        self,
        *,
        timeout: Optional[float] = None,
        lifetime: float = LIFETIME,
        metadata: Metadata = None,
        **session: "Unpack[SessionKeywords]",
    ) -> Session:
        """Opens a session: sequences that grow step by step, whose keys and values the server keeps; use it in a `with`.

        `timeout` is the deadline of each action, `lifetime` that of the session, in seconds. SessionKeywords describes the other
        keywords.
        """
        self._maker.check()
        request = open_request(session)
        lifetime = seconds(lifetime, "lifetime")
        terms = Terms(self._connection.name, self._connection.attempts(timeout).timeout, lifetime)

        def start(requests: Iterator[bytes]) -> Any:
            return self._start("stream_stream", _calls.method("Decode"), requests, lifetime, metadata)

        return Session(start, request, terms, self._line)

    def list_models(self, *, timeout: Optional[float] = None, metadata: Metadata = None) -> List[Model]:
        """Returns the models that the caller may use, in the order of name, then version."""
        return self._run(_calls.call(list, "ListModels"), timeout, metadata)

    def get_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None, metadata: Metadata = None
    ) -> Model:
        """Returns a model, of the highest version unless `version` names one. NotFound if the server does not have it."""
        return self._run(_calls.call(Model, "GetModel", model=name, version=version), timeout, metadata)

    def get_statistics(self, *, timeout: Optional[float] = None, metadata: Metadata = None) -> ServerStatistics:
        """Returns the counters of the server since its start, and its present load."""
        return self._run(_calls.call(ServerStatistics, "GetStatistics"), timeout, metadata)

    def check_health(self, service: str = "", *, timeout: Optional[float] = None, metadata: Metadata = None) -> bool:
        """Returns whether the server, or `service` ("model/NAME" for a model), is serving. NotFound for an unknown service."""
        return self._run(_calls.health(service), timeout, metadata)

    def wait_until_ready(self, service: str = "", *, timeout: Optional[float] = None, metadata: Metadata = None) -> None:
        """Waits until the server, or `service`, is serving. DeadlineExceeded if it is not within `timeout` seconds."""
        attempts = self._connection.attempts(timeout)
        while True:
            try:
                if self.check_health(service, timeout=max(0.001, attempts.remaining()), metadata=metadata):
                    return
                error: AttendError = Unavailable(f"server {self._connection.name}: {service or 'it'} is not serving")
            except (Unavailable, NotFound, DeadlineExceeded) as failure:
                error = failure
            if attempts.remaining() <= 0.1:
                raise DeadlineExceeded(f"not ready within {attempts.timeout:g} s: {error.message}")
            self._line.pause(0.1)

    def list_model_states(self, *, timeout: Optional[float] = None, metadata: Metadata = None) -> List[ModelState]:
        """Returns the state of each model of the server's folder (--models)."""
        return self._run(_calls.call(list, "ListModelStates"), timeout, metadata)

    def load_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None, metadata: Metadata = None
    ) -> List[ModelState]:
        """Loads a model of the folder that is not loaded or has changed. Returns the states of its versions.

        The call lasts until the model is loaded. A server with --admin-listen takes this and the calls below only there."""
        return self._run(_calls.call(list, "LoadModel", model=name, version=version), timeout, metadata)

    def unload_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None, metadata: Metadata = None
    ) -> List[ModelState]:
        """Stops serving a model until load_model(). Returns the states of its versions."""
        return self._run(_calls.call(list, "UnloadModel", model=name, version=version), timeout, metadata)

    def reload_models(self, *, timeout: Optional[float] = None, metadata: Metadata = None) -> List[ModelState]:
        """Loads new and changed models of the folder, and stops serving those that have disappeared.

        Returns the states of all, with the errors of those that failed."""
        return self._run(_calls.call(list, "ReloadModels"), timeout, metadata)

    def verify_model(
        self, name: str, version: Optional[int] = None, *, timeout: Optional[float] = None, metadata: Metadata = None
    ) -> Verification:
        """Measures the loss of accuracy by the element type in which the model's weights are served."""
        return self._run(_calls.call(Verification, "VerifyModel", model=name, version=version), timeout, metadata)

    def set_logging(
        self,
        level: Optional[str] = None,
        requests: Optional[str] = None,
        *,
        timeout: Optional[float] = None,
        metadata: Metadata = None,
    ) -> Logging:
        """Sets the minimum level of the server's log ("debug", "info", "warning", "error"), and which requests it logs ("none",
        "failed", "all"). None leaves a setting as it is. Returns both settings."""
        return self._run(_calls.call(Logging, "SetLogging", level=level, requests=requests), timeout, metadata)

    def _start(self, kind: str, name: str, request: Any, timeout: float, metadata: Metadata) -> Any:
        """Begins a call. Returns it; of kind unary_unary, finished() has its answer. Cancelled if the client is closed."""
        self._maker.check()
        self._line.check()
        headers = self._connection.headers(metadata)
        try:
            if not self._is_closed:
                if name not in self._methods:
                    self._methods[name] = getattr(self._channel, kind)(name)
                return self._methods[name](request, timeout=timeout, metadata=headers)
        except ValueError:  # of gRPC, if another thread has just closed it
            if not self._is_closed:
                raise
        raise Cancelled("the client is closed")

    def _run(
        self, call: "_calls.Call[T]", timeout: Optional[float], metadata: Metadata
    ) -> T:
        attempts = self._connection.attempts(timeout, call.method)
        self._maker.calls.add(attempts)
        try:
            while True:
                try:
                    started = self._start("unary_unary", call.method, call.request, attempts.remaining(), metadata)
                    data = finished(started)
                    attempts.succeeded()
                    return call.decode(data)
                except grpc.RpcError as status:
                    error = from_rpc(status, self._connection.name, attempts.timeout)
                    delay = attempts.delay_after(error)
                    if delay is None:
                        raise error from None
                    self._line.pause(delay)
        finally:
            self._maker.calls.discard(attempts)


class AttendStream:
    """A streamed answer: an iterator over its blocks. Only one thread may use it."""

    def __init__(
        self, start: Callable[[], Any], reader: StreamReader, attempts: Attempts, server: str, line: Line
    ) -> None:
        self._maker = Maker(self, "stream")
        self._start = start
        self._reader = reader
        self._attempts = attempts
        self._server = server
        self._line = line
        self._has_begun = False
        self._failure: Optional[AttendError] = None
        self._maker.calls.add(self._attempts)
        self._call: Any = start()

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        self._maker.check()
        if self._failure is not None:
            raise copy.copy(self._failure)
        try:
            while (data := self._next_message()) is not None:
                block = self._reader.read(data)
                if block is not None:
                    return block
            self._maker.calls.clear()
            self._reader.check_end()
        except AttendError as error:
            self._failure = copy.copy(error)
            self.cancel()
            raise
        except BaseException:  # an interrupt, after which gRPC cannot go on to read
            self.cancel()
            raise
        raise StopIteration

    def result(self) -> AttendResult:
        """Waits for the last block, and returns all blocks joined. FailedPrecondition without `assemble`.

        They are the answer of attend(), except where no row has come that would tell the width of a model's output for token
        ids, texts or logits, or the number of a model's heads: these are then 0."""
        for _ in self:
            pass
        return self._reader.result()

    @property
    def summary(self) -> Optional[Summary]:
        """The times and the batch of the request; None until the last block has come."""
        return self._reader.summary

    def cancel(self) -> None:
        """Cancels the call: the server sends no more blocks, and reading on raises Cancelled. An interrupt (Ctrl-C) does so, too."""
        if self._maker.is_here:
            if self._reader.summary is None:
                self._failure = self._failure or Cancelled("the call was cancelled")
            self._maker.calls.clear()
            self._call.cancel()

    def __enter__(self) -> "AttendStream":
        return self

    def __exit__(self, kind: object, error: object, where: object) -> None:
        """Cancels the call."""
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
                self._line.pause(delay)
                if self._failure is not None:  # cancelled meanwhile
                    raise copy.copy(self._failure) from None
                self._call = self._start()
