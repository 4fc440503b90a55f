"""Unary calls: the bytes of the request, and the function that reads the answer. Both clients run them."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Generic, Type, TypeVar

from google.protobuf import wrappers_pb2

from attend._answers import attend_result, checked
from attend._fields import text, write
from attend._mirror import mirror
from attend._proto import PACKAGE, message_class, service_method
from attend._requests import Request
from attend._wire import Received, parsed
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
    request = message_class(service.input_type.name)()
    write(request, fields)

    @checked
    def decode(data: bytes) -> Any:
        message = Received(service.output_type.name, data).message
        if kind is list:
            return [mirror(part) for part in getattr(message, message.DESCRIPTOR.fields[0].name)]
        return mirror(message)

    return Call(method(name), request.SerializeToString(), decode)


def health(service: str) -> Call[bool]:
    # On the wire, health's request and response are a string and an enum in field 1: just what these wrappers are.
    request = wrappers_pb2.StringValue(value=text(service, "service")).SerializeToString()

    @checked
    def decode(data: bytes) -> bool:
        return bool(parsed(wrappers_pb2.Int32Value, data).value == SERVING)

    return Call("/grpc.health.v1.Health/Check", request, decode)

