"""Converts messages with tensors to bytes and back, without protobuf's copies of the tensors.

In a Python message, `Tensor.data` is the index of a payload; in the bytes, it is the elements. One walk over the fields that lead
to tensors replaces the one by the other, in both directions, so that a tensor is copied once when it is sent and once when it is
received.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Tuple, Union

from attend._proto import message_class

Buffer = Union[bytes, memoryview]
_LENGTH_DELIMITED = 2


class MalformedMessage(ValueError):
    """The bytes are no message, or the message does not fit the request."""


class Received:
    """A message, and the payloads that its tensors refer to: views of the received bytes."""

    def __init__(self, name: str, data: bytes) -> None:
        kind = message_class(name)
        self.payloads: List[memoryview] = []
        parts, _ = _swap_payloads(kind.DESCRIPTOR, memoryview(data), self._refer)
        self.message = parsed(kind, b"".join(parts))

    def payload(self, tensor: Any) -> memoryview:
        """Returns the elements of a tensor of the message."""
        return self.payloads[_index(tensor.data)] if tensor.data else memoryview(b"")

    def _refer(self, payload: memoryview) -> Buffer:
        self.payloads.append(payload)
        return reference(len(self.payloads) - 1)


def parsed(kind: Any, data: bytes) -> Any:
    """Returns a message of class `kind`. MalformedMessage for what is none."""
    try:
        return kind.FromString(data)
    except Exception as error:  # protobuf's DecodeError, whose module differs between versions
        raise MalformedMessage(str(error)) from None


def reference(index: int) -> bytes:
    """Returns the `Tensor.data` that stands for payload `index`."""
    return index.to_bytes(4, "little")


def encode(message: Any, payloads: List[memoryview]) -> bytes:
    """Returns the bytes of `message`, whose tensors refer to `payloads`. ValueError if they are too many for gRPC."""
    data = memoryview(message.SerializeToString())
    parts, size = _swap_payloads(message.DESCRIPTOR, data, lambda place: payloads[_index(place)])
    if size >= 1 << 32:  # gRPC would send this many modulo 2^32
        raise ValueError(f"request: expected less than {1 << 32} bytes, found {size}")
    return b"".join(parts)


def _index(place: Buffer) -> int:
    return int.from_bytes(place, "little")


@functools.lru_cache(maxsize=None)
def _paths(descriptor: Any) -> Dict[int, Any]:
    """Returns the fields, by number, that hold a payload (None), or a message with tensors (its descriptor)."""
    if descriptor.name == "Tensor":
        return {descriptor.fields_by_name["data"].number: None}
    inner = {field.number: field.message_type for field in descriptor.fields if field.message_type}
    return {number: kind for number, kind in inner.items() if _paths(kind)}


def _swap_payloads(
    descriptor: Any, data: memoryview, swap: Callable[[memoryview], Buffer]
) -> Tuple[List[Buffer], int]:
    """Returns the parts of `data`, with every payload replaced, and their total length."""
    paths = _paths(descriptor)
    parts: List[Buffer] = []
    copied = at = size = 0
    while at < len(data):
        field = at
        key, at = _read_varint(data, at)
        if key >> 32:  # protobuf would read it as that of another field
            raise MalformedMessage(f"field: expected a key of 32 bits, found {key:#x}")
        end, body = _end_of_field(data, key, at)
        number = key >> 3
        if key & 7 == _LENGTH_DELIMITED and number in paths:
            if paths[number] is None:
                payload = swap(data[body:end])
                inner: List[Buffer] = [payload]
                inner_size = len(payload)
            else:
                inner, inner_size = _swap_payloads(paths[number], data[body:end], swap)
            head = _varint(key) + _varint(inner_size)
            parts += [data[copied:field], head, *inner]
            size += field - copied + len(head) + inner_size
            copied = end
        at = end
    parts.append(data[copied:])
    return parts, size + len(data) - copied


def _end_of_field(data: memoryview, key: int, at: int) -> Tuple[int, int]:
    """Returns where the field ends, and where its contents begin."""
    wire_type = key & 7
    if wire_type == _LENGTH_DELIMITED:
        length, at = _read_varint(data, at)
        end = at + length
    elif wire_type == 0:
        end = _read_varint(data, at)[1]
    elif wire_type in (1, 5):
        end = at + (8 if wire_type == 1 else 4)
    else:
        raise MalformedMessage(f"wire type: expected 0, 1, 2 or 5, found {wire_type}")
    if end > len(data):
        raise MalformedMessage(f"message: expected at least {end} bytes, found {len(data)}")
    return end, at


def _read_varint(data: memoryview, at: int) -> Tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise MalformedMessage("varint: expected an end, found none")


def _varint(value: int) -> bytes:
    result = bytearray()
    while value >= 0x80:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)
