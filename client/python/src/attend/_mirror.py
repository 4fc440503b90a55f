"""Converts messages to the dataclasses of models.py, field by field."""

from __future__ import annotations

import dataclasses
from collections import abc
from typing import Any

from attend._proto import PACKAGE, enum_name
from attend.models import MIRRORS


def mirror(message: Any) -> Any:
    """Returns an object of the message's class; absent fields are None."""
    kind = MIRRORS[message.DESCRIPTOR.full_name[len(PACKAGE) + 1 :]]
    return kind(**{field.name: _value(message, field.name) for field in dataclasses.fields(kind)})


def _value(message: Any, name: str) -> Any:
    field = message.DESCRIPTOR.fields_by_name[name]
    value: Any = getattr(message, name)
    if isinstance(value, abc.Sequence) and not isinstance(value, (str, bytes)):
        return [mirror(part) if field.message_type else part for part in value]
    if field.message_type:
        return mirror(value)
    if field.enum_type:
        return enum_name(field.enum_type.full_name[len(PACKAGE) + 1 :], int(value))
    # Only `optional` scalars are members of a oneof of their own.
    if field.containing_oneof is not None and not message.HasField(name):
        return None
    return value
