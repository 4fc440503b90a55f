"""Errors of calls: one class for each status code, with the server's message."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional, Type

import grpc


class AttendError(Exception):
    """The error of a failed call; the classes below are its kinds. `message` is the server's."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init_subclass__(cls) -> None:
        name = re.sub("(?<!^)([A-Z])", r"_\1", cls.__name__).upper()
        cls.code = grpc.StatusCode.__members__.get(name, cls.code)

    def __init__(
        self, message: str, retry_after: Optional[float] = None, trailers: Optional[Dict[str, str]] = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """The seconds after which the server asks to retry; None if it does not ask."""
        self.trailers = trailers or {}
        """The trailing metadata of the call, as x-request-id and attend-estimated-wait-ms."""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class InvalidArgument(AttendError):
    """The request is wrong. The message names the field, what was expected and what was found."""


class NotFound(AttendError):
    """The server does not have the model, the version, the service or the sequence."""


class ResourceExhausted(AttendError):
    """The request is too large, or the server has too little memory or time for it now; then `retry_after` is set."""


class DeadlineExceeded(AttendError):
    """The answer did not come before the deadline, or the server expects that it cannot."""


class Unavailable(AttendError):
    """The server cannot be reached, is draining, or is loading the model; or the connection broke."""


class FailedPrecondition(AttendError):
    """The state of the server, or of this object, does not allow the call."""


class Unauthenticated(AttendError):
    """The call has no token, or one that the server does not know."""


class PermissionDenied(AttendError):
    """The token does not allow this call."""


class Cancelled(AttendError):
    """The caller cancelled the call."""


class AlreadyExists(AttendError):
    """What the call would make exists: as the new sequence of a fork."""


class Aborted(AttendError):
    """The server aborted the call."""


class OutOfRange(AttendError):
    """A value of the request is out of range."""


class Unimplemented(AttendError):
    """The server, or this address of it, does not offer the call."""


class Internal(AttendError):
    """The answer is malformed, or the server has a fault."""


class DataLoss(AttendError):
    """Data was lost."""


class Unknown(AttendError):
    """The error has a code that no other class stands for."""


_CLASSES: Dict[grpc.StatusCode, Type[AttendError]] = {kind.code: kind for kind in AttendError.__subclasses__()}
_CODES = {code.value[0]: code for code in grpc.StatusCode}


# What to change, by the words of OpenSSL or of gRPC about a connection that failed.
_HINTS = (
    ("wrong version number", "the server speaks no TLS: connect without tls"),
    (
        "http1.x server|parsing HTTP/2",
        "the server speaks no HTTP/2: is this the port of /metrics, or a proxy that needs tls?",
    ),
    (
        "last error: .*(Socket closed|Connection reset by peer)",
        "the server closed the new connection: does it need tls, or a certificate in it?",
    ),
)


def from_rpc(error: Any, server: str, timeout: float) -> AttendError:
    """Returns the error of a grpc.RpcError. Its message also names the server, the timeout or the flag to raise."""
    code, message = error.code(), error.details() or ""
    if code == grpc.StatusCode.UNAVAILABLE:
        hints = (f" ({hint})" for words, hint in _HINTS if re.search(words, message))
        message = f"server {server}: {message}{next(hints, '')}"
    elif code == grpc.StatusCode.DEADLINE_EXCEEDED:
        # gRPC's own text says that the time is over; the server refuses what it could not compute in time.
        late = "no answer within" if message == "Deadline Exceeded" else "refused with a timeout of"
        message = f"server {server}: {late} {timeout:g} s: {message}"
    elif "larger than max" in message:
        message += " (the server's flag --max-message-bytes sets the limit)"
    elif "metadata size exceeds" in message:
        message += " (of metadata that is sent, the server's flag --max-header-bytes sets the limit)"
    trailers = {key: value for key, value in error.trailing_metadata() or () if isinstance(value, str)}
    pushback = trailers.get("grpc-retry-pushback-ms", "")
    retry_after = int(pushback) / 1000 if pushback.isdigit() else None
    return _CLASSES.get(code, Unknown)(message, retry_after, trailers)


def from_result(result: Any) -> AttendError:
    """Returns the error of a DecodeResult whose code is not 0."""
    kind = _CLASSES.get(_CODES.get(result.code, grpc.StatusCode.UNKNOWN), Unknown)
    return kind(result.message, result.retry_after_ms / 1000 if result.retry_after_ms > 0 else None)
