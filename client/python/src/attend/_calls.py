"""Unary calls: the bytes of the request, and the function that reads the answer. Both clients run them."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Generic, List, Mapping, Optional, TypeVar

from google.protobuf import wrappers_pb2

from attend import models
from attend._answers import attend_result, checked
from attend._mirror import mirror
from attend._proto import PACKAGE, enum_number, message_class
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


def list_models() -> Call[List[models.Model]]:
    return _call("ListModels", "ListModelsRequest", {}, "ListModelsResponse", _each("models"))


def get_model(name: str, version: Optional[int]) -> Call[models.Model]:
    return _call("GetModel", "GetModelRequest", _of_model(name, version), "Model", mirror)


def list_model_states() -> Call[List[models.ModelState]]:
    return _call("ListModelStates", "ListModelStatesRequest", {}, "ModelStates", _each("states"))


def load_model(name: str, version: Optional[int]) -> Call[List[models.ModelState]]:
    return _call("LoadModel", "LoadModelRequest", _of_model(name, version), "ModelStates", _each("states"))


def unload_model(name: str, version: Optional[int]) -> Call[List[models.ModelState]]:
    return _call("UnloadModel", "UnloadModelRequest", _of_model(name, version), "ModelStates", _each("states"))


def reload_models() -> Call[List[models.ModelState]]:
    return _call("ReloadModels", "ReloadModelsRequest", {}, "ModelStates", _each("states"))


def verify_model(name: str, version: Optional[int]) -> Call[models.Verification]:
    return _call("VerifyModel", "VerifyModelRequest", _of_model(name, version), "VerifyModelResponse", mirror)


def statistics() -> Call[models.ServerStatistics]:
    return _call("GetStatistics", "GetStatisticsRequest", {}, "ServerStatistics", mirror)


def set_logging(level: Optional[str], requests: Optional[str]) -> Call[models.Logging]:
    fields = {}
    if level is not None:
        fields["level"] = enum_number("Logging.Level", level, "level")
    if requests is not None:
        fields["requests"] = enum_number("Logging.Requests", requests, "requests")
    return _call("SetLogging", "SetLoggingRequest", fields, "Logging", mirror)


def health(service: str) -> Call[bool]:
    # On the wire, health's request and response are a string and an enum in field 1: just what these wrappers are.
    request = wrappers_pb2.StringValue(value=service).SerializeToString()
    return Call(
        "/grpc.health.v1.Health/Check",
        request,
        lambda data: bool(wrappers_pb2.Int32Value.FromString(data).value == SERVING),
    )


def _call(
    name: str, request: str, fields: Mapping[str, Any], response: str, convert: Callable[[Any], T]
) -> Call[T]:
    decode = checked(lambda data: convert(Received(response, data).message))
    return Call(method(name), message_class(request)(**fields).SerializeToString(), decode)


def _of_model(name: str, version: Optional[int]) -> Mapping[str, Any]:
    return {"model": name} if version is None else {"model": name, "version": version}


def _each(field: str) -> Callable[[Any], Any]:
    return lambda message: [mirror(part) for part in getattr(message, field)]
