"""The messages of attention.proto, made at import from the descriptor set that the build compiled.

Generated modules would demand a runtime at least as new as their compiler, and put their names into a registry that all
packages of a process share.
"""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "attention.v1"


@functools.lru_cache(maxsize=None)
def _pool() -> Any:
    pool = descriptor_pool.DescriptorPool()
    data = resources.files("attend").joinpath("attention.binpb").read_bytes()
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.lru_cache(maxsize=None)
def message_class(name: str) -> Any:
    """Returns the class of a message of attention.v1, as "Tensor"."""
    descriptor = _pool().FindMessageTypeByName(f"{PACKAGE}.{name}")
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(_pool()).GetPrototype(descriptor)  # protobuf before 4.22


def service_method(name: str) -> Any:
    """Returns the descriptor of a method of AttentionService: its input_type and output_type."""
    return _pool().FindServiceByName(f"{PACKAGE}.AttentionService").methods_by_name[name]


@functools.lru_cache(maxsize=None)
def _enum(name: str) -> Any:
    return _pool().FindEnumTypeByName(f"{PACKAGE}.{name}")


def enum_number(enum: str, name: str, field: str) -> int:
    """Returns the number of a value, whose name may have any case: enum_number("ModelOutput", "logits", "model_output").

    ValueError, which says `field`, for what is no name of a value."""
    values = _enum(enum).values_by_name
    if not isinstance(name, str) or name.upper() not in values:
        known = ", ".join(repr(value.lower()) for value in values)
        raise ValueError(f"{field}: expected one of {known}, found {name!r}")
    return int(values[name.upper()].number)


def enum_name(enum: str, number: int) -> str:
    """Returns the name of a value; its digits, if it is unknown."""
    value = _enum(enum).values_by_number.get(number)
    return str(value.name) if value is not None else str(number)
