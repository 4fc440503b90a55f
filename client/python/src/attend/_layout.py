"""The rows of each sequence in an answer."""

from __future__ import annotations

import dataclasses
import reprlib
from typing import Any, List, Optional, Sequence, Tuple

from attend._proto import enum_name
from attend._wire import MalformedMessage

_POOLED = ("MEAN_POOLED", "CLS_POOLED", "LAST_LOGITS")
_LOGITS = ("LOGITS", "LAST_LOGITS")


@dataclasses.dataclass(frozen=True)
class Span:
    """The rows of a sequence; they are counted over all leading extents of `output`."""

    first_row: int
    output_rows: int
    query_len: int
    kv_len: int


@dataclasses.dataclass(frozen=True)
class Layout:
    form: str  # "packed", "padded" or "pooled"
    leading: Tuple[int, ...]  # extents of the output that count rows: (T,), (B, S) or (N,)
    spans: List[Span]


RowShape = Tuple[Optional[int], ...]  # the extents of an output row; None is one that the request does not tell


def row_shape(request: Any) -> RowShape:
    """Returns the extents of an output row, as far as the request tells them."""
    kind = request.WhichOneof("input")
    if kind == "query_key_value":
        return (num_heads(request), _extent(request.query_key_value.value.shape, -1))
    if kind == "hidden_states" and enum_name("ModelOutput", request.model_output) not in _LOGITS:
        wire = request.hidden_states
        return (_extent((wire.tensor if wire.HasField("tensor") else wire.memory).shape, -1),)
    return (None,)


def num_heads(request: Any) -> Optional[int]:
    """Returns the number of heads of scores; None if the request does not tell it."""
    return _extent(request.query_key_value.query.shape, -2) if request.WhichOneof("input") == "query_key_value" else None


def _extent(shape: Sequence[int], index: int) -> Optional[int]:
    """Returns an extent counted from the end; None if there is none: the server refuses such a request."""
    return shape[index] if len(shape) >= -index else None


def check_shape(what: str, leading: Sequence[int], row: RowShape, found: Sequence[int]) -> None:
    """Raises MalformedMessage unless `found` has the extents `leading`, and then those of `row`."""
    expected = [*leading, *row]
    if len(found) != len(expected) or any(x is not None and x != y for x, y in zip(expected, found)):
        shape = ", ".join("any" if extent is None else str(extent) for extent in expected)
        raise MalformedMessage(f"{what}: expected [{shape}], found {list(found)}")


def layout_of(request: Any, token_counts: Sequence[int]) -> Layout:
    """Returns the layout of the answer to an AttendRequest or DecodeStep, whose texts have `token_counts` tokens."""
    leading, rows, keys = _rows_and_keys(request, token_counts)
    spans = []
    is_pooled = enum_name("ModelOutput", request.model_output) in _POOLED
    for index, ((first, count), (_, kv_len)) in enumerate(zip(rows, keys)):
        if is_pooled:
            spans.append(Span(index, min(1, count), count, kv_len))
        else:
            spans.append(Span(first, count, count, kv_len))
    if is_pooled:
        return Layout("pooled", (len(spans),), spans)
    return Layout("packed" if len(leading) == 1 else "padded", leading, spans)


Rows = List[Tuple[int, int]]  # the first row and the number of rows of each sequence


def _rows_and_keys(request: Any, token_counts: Sequence[int]) -> Tuple[Tuple[int, ...], Rows, Rows]:
    kind = request.WhichOneof("input")
    if kind == "query_key_value":
        wire = request.query_key_value
        leading = tuple(wire.query.shape[:-2])
        return leading, _cut(leading, wire.lengths), _cut(tuple(wire.key.shape[:-2]), wire.kv_lengths)
    if kind == "hidden_states":
        wire = request.hidden_states
        memory = _cut(tuple(wire.memory.shape[:-1]), wire.memory_lengths) if wire.HasField("memory") else None
        if not wire.HasField("tensor"):  # the encoder alone
            assert memory is not None
            return tuple(wire.memory.shape[:-1]), memory, memory
        leading = tuple(wire.tensor.shape[:-1])
        rows = _cut(leading, wire.lengths)
        return leading, rows, memory or rows
    if kind == "text":
        leading = (sum(token_counts),)
        rows = _cut(leading, token_counts)
        return leading, rows, rows
    leading = (len(request.token_ids.ids),)
    rows = _cut(leading, request.token_ids.lengths)
    return leading, rows, rows


def _cut(leading: Tuple[int, ...], lengths: Sequence[int]) -> Rows:
    """Returns the sequences of a request. MalformedMessage for lengths that do not fit its rows: a server has to refuse them."""
    if len(leading) == 2:
        number, most = leading
        lengths = lengths or [most] * number
        if len(lengths) != number or not all(0 <= length <= most for length in lengths):
            raise MalformedMessage(f"lengths that the server took: expected {number} of 0 to {most}, found {reprlib.repr(list(lengths))}")
        return [(sequence * most, length) for sequence, length in enumerate(lengths)]
    lengths = lengths or leading
    if min(lengths, default=0) < 0 or sum(lengths) != sum(leading):
        raise MalformedMessage(f"lengths that the server took: expected a sum of {sum(leading)}, found {reprlib.repr(list(lengths))}")
    rows, first = [], 0
    for length in lengths:
        rows.append((first, length))
        first += length
    return rows
