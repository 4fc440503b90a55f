"""Errors of calls: one class for each status code, with the server's own words."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type

import grpc


class AttendError(Exception):
    """A call failed. Raised as one of the classes below."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN

    def __init__(
        self, message: str, retry_after: Optional[float] = None, trailers: Optional[Dict[str, str]] = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """Seconds after which the server says to try again; None when it does not."""
        self.trailers = trailers or {}
        """What the server sent beside its answer: x-request-id, attend-estimated-wait-ms."""

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"


class InvalidArgument(AttendError):
    """The request names something that cannot be; the message says what was expected and what was found."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(AttendError):
    """No such model, version or service."""

    code = grpc.StatusCode.NOT_FOUND


class ResourceExhausted(AttendError):
    """Too large, or no room or time now; with `retry_after` for the latter."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class DeadlineExceeded(AttendError):
    """No answer in time, or none possible in time."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Unavailable(AttendError):
    """No server there, one that is draining, or a model that is being loaded."""

    code = grpc.StatusCode.UNAVAILABLE


class FailedPrecondition(AttendError):
    """The server, or this object, is in no state for the call."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class Unauthenticated(AttendError):
    """No token, or one that the server does not know."""

    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(AttendError):
    """A token without the right to do this."""

    code = grpc.StatusCode.PERMISSION_DENIED


class Cancelled(AttendError):
    """Ended by the caller."""

    code = grpc.StatusCode.CANCELLED


class AlreadyExists(AttendError):
    code = grpc.StatusCode.ALREADY_EXISTS


class Aborted(AttendError):
    code = grpc.StatusCode.ABORTED


class OutOfRange(AttendError):
    code = grpc.StatusCode.OUT_OF_RANGE


class Unimplemented(AttendError):
    """A server that does not offer this call, here."""

    code = grpc.StatusCode.UNIMPLEMENTED


class Internal(AttendError):
    """An answer that does not hold together, or a fault of the server's."""

    code = grpc.StatusCode.INTERNAL


class DataLoss(AttendError):
    code = grpc.StatusCode.DATA_LOSS


class Unknown(AttendError):
    code = grpc.StatusCode.UNKNOWN


_CLASSES: Dict[grpc.StatusCode, Type[AttendError]] = {kind.code: kind for kind in AttendError.__subclasses__()}
_CODES = {code.value[0]: code for code in grpc.StatusCode}


def from_rpc(error: Any, server: str, timeout: float) -> AttendError:
    """From a grpc.RpcError, with what the caller can do about it."""
    code, message = error.code(), error.details() or ""
    if code == grpc.StatusCode.UNAVAILABLE:
        message = f"server {server}: {message}"
    elif code == grpc.StatusCode.DEADLINE_EXCEEDED:
        message = f"server {server}: no answer within {timeout:g} s: {message}"
    elif "larger than max" in message:
        message += " (the server's flag --max-message-bytes sets the limit)"
    trailers = {key: value for key, value in error.trailing_metadata() or () if isinstance(value, str)}
    pushback = trailers.get("grpc-retry-pushback-ms", "")
    retry_after = int(pushback) / 1000 if pushback.isdigit() else None
    return _CLASSES.get(code, Unknown)(message, retry_after, trailers)


def from_result(result: Any) -> AttendError:
    """From a DecodeResult whose code is not 0."""
    kind = _CLASSES.get(_CODES.get(result.code, grpc.StatusCode.UNKNOWN), Unknown)
    return kind(result.message, result.retry_after_ms / 1000 if result.retry_after_ms > 0 else None)
