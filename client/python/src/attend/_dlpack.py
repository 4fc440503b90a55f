"""Reads tensors of other libraries, as torch's, by DLPack (dlpack.h). numpy's own reader does not support bfloat16."""

from __future__ import annotations

import ctypes
from typing import Any, Tuple

import numpy as np

BF16_BITS = np.dtype([("bfloat16", "<u2")])
"""The type of a bfloat16's bits, without ml_dtypes."""
_CPU, _BFLOAT = 1, 4


class _Tensor(ctypes.Structure):
    """DLTensor, the first member of DLManagedTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),  # in elements; null: row-major
        ("byte_offset", ctypes.c_uint64),
    ]


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def check_unmasked(value: Any, name: str) -> None:
    """TypeError for a masked array."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name}: expected an array without a mask, found a masked array (.filled() gives its values)")


def as_array(value: Any, name: str = "tensor") -> "np.ndarray[Any, Any]":
    """Returns a numpy array: a view where numpy can make one, or a copy of the bits of a bfloat16 tensor, as BF16_BITS.

    TypeError for a tensor that is not on the CPU, or that DLPack does not export, and for a masked array, whose mask would be
    lost."""
    check_unmasked(value, name)
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        try:
            return np.asarray(value)
        except ValueError:
            raise ValueError(f"{name}: expected rows of one length, found lists of several") from None
    if value.__dlpack_device__()[0] != _CPU:
        raise TypeError(f"{name}: expected a tensor on the CPU, found one on another device (.cpu() copies it)")
    try:
        capsule = value.__dlpack__()
        tensor = _Tensor.from_address(_pointer_of(capsule, b"dltensor"))
        if (tensor.code, tensor.bits) != (_BFLOAT, 16):
            return np.from_dlpack(value)
    except (BufferError, RuntimeError) as error:  # as of torch, for a tensor that requires a gradient
        raise TypeError(f"{name}: expected a tensor that DLPack exports, found one that it does not: {error}") from None
    return _view(tensor).copy()


def _view(tensor: _Tensor) -> "np.ndarray[Any, Any]":
    """Returns a view of the elements. REQUIRES: the capsule lives as long."""
    shape: Tuple[int, ...] = tuple(tensor.shape[: tensor.ndim])
    if 0 in shape:
        return np.empty(shape, BF16_BITS)
    strides = [2 * stride for stride in tensor.strides[: tensor.ndim]] if tensor.strides else None
    span = 2 + sum((n - 1) * s for n, s in zip(shape, strides)) if strides else 2 * int(np.prod(shape, dtype=np.int64))
    memory = (ctypes.c_uint8 * span).from_address((tensor.data or 0) + tensor.byte_offset)
    return np.ndarray(shape, BF16_BITS, memory, strides=strides)
