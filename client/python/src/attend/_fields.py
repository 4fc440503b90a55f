"""Checks arguments, and writes them into the fields of messages. An error names the argument, what was expected and what was
found."""

from __future__ import annotations

import operator
import reprlib
from collections import abc
from typing import Any, List, Mapping

import numpy as np

from attend import _proto

YEAR = 365 * 24 * 3600.0
# The types of elements that a field of type DataType takes.
_DTYPES = {"dtype": ("FP32", "FP16", "BF16"), "cache_dtype": ("FP32", "BF16", "INT8")}
_NUMPY_NAMES = {"float32": "FP32", "float16": "FP16", "bfloat16": "BF16", "int8": "INT8"}


def integer(value: Any, name: str, bits: int = 64) -> int:
    """Returns an integer of Python or numpy as one of Python, if `bits` suffice."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected an integer, found {reprlib.repr(value)}") from None
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"{name}: expected an integer of {bits} bits, found {number}")
    return number


def number(value: Any, name: str) -> float:
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name}: expected a number, found {reprlib.repr(value)}") from None


def seconds(value: Any, name: str) -> float:
    """Returns positive seconds, at most a year: gRPC takes much later deadlines for past ones."""
    if not 0 < number(value, name) <= YEAR:
        raise ValueError(f"{name}: expected positive seconds, at most a year, found {value!r}")
    return float(value)


def flag(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: expected True or False, found {reprlib.repr(value)}")
    return bool(value)


def text(value: Any, name: str) -> str:
    """Its errors do not show the value, which may be secret."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a text, found {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name}: expected characters of UTF-8, found a lone surrogate") from None
    return value


def visible(value: Any, name: str) -> str:
    """Returns a text for the headers of a call. Its errors do not show the value: gRPC's would show all headers."""
    if not (text(value, name).isascii() and value.isprintable()):
        raise ValueError(f"{name}: expected printable ASCII characters, found others")
    return str(value)


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """Its errors do not show the value, which may be secret."""
    if not isinstance(value, abc.Mapping):
        raise TypeError(f"{name}: expected a dict, found {type(value).__name__}")
    return value


def dtype_name(value: Any, name: str, field: str = "dtype") -> str:
    """Returns the name in DataType of "bf16", "bfloat16", numpy.float16 and the like. ValueError unless `field` takes it."""
    try:
        key = value if isinstance(value, str) else np.dtype(value).name
    except TypeError:
        key = ""
    found = _NUMPY_NAMES.get(key, key.upper())
    if found not in _DTYPES[field]:
        known = ", ".join(repr(one.lower()) for one in _DTYPES[field])
        raise ValueError(f"{name}: expected one of {known}, found {reprlib.repr(value)}")
    return found


def write(message: Any, values: Mapping[str, Any], where: str = "") -> None:
    """Writes the values that are not None into the fields of their names; `where` stands before a name in errors."""
    for name, value in values.items():
        if value is not None:
            write_field(message, name, value, where + name)


def write_field(message: Any, field_name: str, value: Any, name: str) -> None:
    """Writes a field; `name` is its name in errors."""
    field = message.DESCRIPTOR.fields_by_name.get(field_name)
    if field is None:
        known = ", ".join(message.DESCRIPTOR.fields_by_name)
        raise TypeError(f"{name}: expected one of {known}, found another name")
    held = getattr(message, field_name)
    if hasattr(held, "extend"):
        parts = items(value, name)
        if not field.message_type:
            held.extend([_scalar(field, part, name) for part in parts])
            return
        for index, part in enumerate(parts):
            write(held.add(), mapping(part, f"{name}[{index}]"), f"{name}[{index}].")
    elif field.message_type:
        held.SetInParent()
        write(held, mapping(value, name), f"{name}.")
    else:
        setattr(message, field_name, _scalar(field, value, name))


def items(value: Any, name: str) -> List[Any]:
    try:
        if isinstance(value, (str, bytes, abc.Mapping)):
            raise TypeError
        return list(value)
    except TypeError:
        raise TypeError(f"{name}: expected a list, found {reprlib.repr(value)}") from None


def _scalar(field: Any, value: Any, name: str) -> Any:
    if field.enum_type:
        enum = field.enum_type.full_name[len(_proto.PACKAGE) + 1 :]
        if enum == "DataType":
            value = dtype_name(value, name, field.name)
        return _proto.enum_number(enum, value, name)
    if field.cpp_type == field.CPPTYPE_BOOL:
        return flag(value, name)
    if field.cpp_type == field.CPPTYPE_STRING:
        return text(value, name)
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return number(value, name)
    return integer(value, name, 32 if field.cpp_type == field.CPPTYPE_INT32 else 64)
