"""Unary calls: the bytes of the request, and the function that reads the answer. Both clients run them."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Generic, Optional, Type, TypeVar

from google.protobuf import wrappers_pb2

from attend import models
from attend._answers import attend_result, checked
from attend._mirror import mirror
from attend._proto import PACKAGE, enum_number, message_class, service_method
from attend._requests import Request
from attend._wire import Received
from attend.results import AttendResult

T = TypeVar("T")
SERVING = 1


def method(name: str) -> str:
    return f"/{PACKAGE}.AttentionService/{name}"


@dataclasses.dataclass(frozen=True)
class Call(Generic[T]):
    method: str
    request: bytes
    decode: Callable[[bytes], T]


def attend(request: Request) -> Call[AttendResult]:
    return Call(method("Attend"), request.encode(), lambda data: attend_result(request, data))


def call(kind: Type[T], name: str, **fields: Any) -> Call[T]:
    """Returns a call whose answer is a message, or with `list` the only field of one; a field that is None is left out."""
    service = service_method(name)
    given = {key: value for key, value in fields.items() if value is not None}

    @checked
    def decode(data: bytes) -> Any:
        message = Received(service.output_type.name, data).message
        if kind is list:
            return [mirror(part) for part in getattr(message, message.DESCRIPTOR.fields[0].name)]
        return mirror(message)

    return Call(method(name), message_class(service.input_type.name)(**given).SerializeToString(), decode)


def set_logging(level: Optional[str], requests: Optional[str]) -> Call[models.Logging]:
    return call(
        models.Logging,
        "SetLogging",
        level=None if level is None else enum_number("Logging.Level", level, "level"),
        requests=None if requests is None else enum_number("Logging.Requests", requests, "requests"),
    )


def health(service: str) -> Call[bool]:
    # On the wire, health's request and response are a string and an enum in field 1: just what these wrappers are.
    request = wrappers_pb2.StringValue(value=service).SerializeToString()
    return Call(
        "/grpc.health.v1.Health/Check",
        request,
        lambda data: bool(wrappers_pb2.Int32Value.FromString(data).value == SERVING),
    )

