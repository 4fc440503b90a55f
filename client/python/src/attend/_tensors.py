"""Converts numpy arrays to tensors of messages and back."""

from __future__ import annotations

import math
from typing import Any, List, Optional, Sequence

import numpy as np

from attend import _proto
from attend._dlpack import BF16_BITS
from attend._fields import dtype_name
from attend._wire import MalformedMessage, Received, reference

# numpy's types of elements in memory; numpy has none for BF16.
_ELEMENTS = {"FP32": "<f4", "FP16": "<f2", "BF16": "<u2", "BOOL": "u1", "INT32": "<i4"}
_NAMES = {"float32": "FP32", "float64": "FP32", "float16": "FP16", "bfloat16": "BF16"}


class TensorWriter:
    """Writes arrays into messages, and collects their payloads."""

    def __init__(self) -> None:
        self.payloads: List[memoryview] = []

    def write(self, array: "np.ndarray[Any, Any]", dtype: str, tensor: Any) -> None:
        """`dtype` is the wire's name: FP32, FP16, BF16 or BOOL. Numbers are rounded, whatever the caller's np.seterr says."""
        with np.errstate(all="ignore"):
            if dtype == "BF16":
                stored = array.view("<u2") if _name_of(array) == "bfloat16" else _to_bf16_bits(array)
            else:
                stored = array.astype(_ELEMENTS[dtype], copy=False)
        stored = np.ascontiguousarray(stored)
        tensor.dtype = _proto.enum_number("DataType", dtype, "dtype")
        tensor.shape.extend(array.shape)
        tensor.data = reference(len(self.payloads))
        self.payloads.append(stored.reshape(-1).view(np.uint8).data)


def wire_dtype(array: "np.ndarray[Any, Any]", wanted: Any, name: str) -> str:
    """Returns the dtype of rows in a message: `wanted`, as "fp16" or numpy.float16, or their own. TypeError, ValueError."""
    if _name_of(array) not in _NAMES:
        raise TypeError(
            f"{name}: expected floating-point rows, found {array.dtype.name} (token ids are given as token_ids=)"
        )
    own = _NAMES[_name_of(array)]
    dtype = own if wanted is None else dtype_name(wanted, "dtype")
    if array.dtype == BF16_BITS and dtype != own:
        raise ValueError(f"dtype: expected none or 'bf16' beside bfloat16 rows, found {wanted!r}")
    return dtype


def _name_of(array: "np.ndarray[Any, Any]") -> str:
    return "bfloat16" if array.dtype == BF16_BITS else str(array.dtype.name)


def home_dtype(array: "np.ndarray[Any, Any]") -> "np.dtype[Any]":
    """Returns the dtype of the answer to such rows: their own, or float32 for float64 and for bits of bfloat16."""
    dtype: "np.dtype[Any]" = array.dtype
    if dtype.name == "bfloat16":
        return dtype
    return np.dtype(np.float16 if dtype.name == "float16" else np.float32)


FLOATS = ("FP32", "FP16", "BF16")


def view(received: Received, tensor: Any, dtypes: Sequence[str] = FLOATS) -> "np.ndarray[Any, Any]":
    """Returns the received elements of a tensor, [..] of 1 to 4 extents: read-only, perhaps unaligned; BF16 as its bits."""
    dtype = _proto.enum_name("DataType", tensor.dtype)
    if dtype not in dtypes:
        raise MalformedMessage(f"dtype of a tensor: expected {' or '.join(dtypes)}, found {dtype}")
    payload = received.payload(tensor)
    element = np.dtype(_ELEMENTS[dtype])
    shape = tuple(tensor.shape)
    # Extents beside a 0 have a limit, too: numpy's.
    if not 1 <= len(shape) <= 4 or min(shape) < 0 or math.prod(extent or 1 for extent in shape) >= 1 << 32:
        raise MalformedMessage(f"tensor {list(shape)}: expected 1 to 4 extents of 0 or more, below 2^32 elements, found others")
    expected = element.itemsize * math.prod(shape)
    if expected != len(payload):
        raise MalformedMessage(f"tensor {list(shape)}: expected {expected} bytes, found {len(payload)}")
    return np.frombuffer(payload, element).reshape(shape)


def read(
    received: Received, tensor: Any, home: Optional["np.dtype[Any]"] = None, dtypes: Sequence[str] = FLOATS
) -> "np.ndarray[Any, Any]":
    """Returns an aligned, writable copy of a tensor with dtype `home`, or with its own (float32 for BF16)."""
    return give_home(view(received, tensor, dtypes), _proto.enum_name("DataType", tensor.dtype), home)


def give_home(stored: "np.ndarray[Any, Any]", dtype: str, home: Optional["np.dtype[Any]"]) -> "np.ndarray[Any, Any]":
    """Converts received elements to dtype `home`, or to their own (float32 for BF16)."""
    if dtype == "BF16":
        if home is not None and home.name == "bfloat16":
            return stored.copy().view(home)
        wide = (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return wide.astype(home or np.float32, copy=False)
    return stored.astype(home or stored.dtype.newbyteorder("="))


def _to_bf16_bits(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Rounds to the nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    quiet = bits | np.uint32(0x400000)
    is_nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return (np.where(is_nan, quiet, rounded) >> np.uint32(16)).astype("<u2")
