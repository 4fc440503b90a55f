"""Messages to results. What a server sends is not trusted: a block that does not fit is INTERNAL."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar

import numpy as np

from attend import models, results
from attend._layout import Layout, RowShape, Span, check_shape, layout_of, num_heads, row_shape
from attend._mirror import mirror
from attend._requests import Request
from attend._tensors import read
from attend._wire import MalformedMessage, Received
from attend.errors import Internal

Array = Any
_KINDS = ("weights", "log_sum_exp", "top_weights", "top_keys")
T = TypeVar("T")


def checked(decode: Callable[..., T]) -> Callable[..., T]:
    """Returns `decode` with Internal in place of MalformedMessage."""

    @functools.wraps(decode)
    def call(*arguments: Any) -> T:
        try:
            return decode(*arguments)
        except MalformedMessage as error:
            raise Internal(f"malformed answer: {error}") from None

    return call


@checked
def attend_result(request: Request, data: bytes) -> results.AttendResult:
    """Reads an AttendResponse."""
    received = Received("AttendResponse", data)
    message = received.message
    asked = request.message
    num_texts = len(asked.text.texts) if asked.WhichOneof("input") == "text" else 0
    _check_number("lists of tokens", num_texts, message.tokens)
    layout = layout_of(asked, [len(text.ids) for text in message.tokens])
    spans = layout.spans
    check_sent(message, "output")
    output = read(received, message.output, request.home)
    check_shape("output", layout.leading, row_shape(asked), output.shape)
    options = asked.options
    weights = [_scores(received, weights) for weights in message.weights]
    sums = [_scores(received, sums) for sums in message.log_sum_exp]
    top = [_top_weights(received, top) for top in message.top_weights]
    heads = num_heads(asked)
    _check_tables("weights", spans if options.return_weights else [], heads, weights, (None,))
    _check_tables("log_sum_exp", spans if options.return_log_sum_exp else [], heads, sums, ())
    _check_tables("top_weights", spans if options.weights_top_k > 0 else [], heads, [weights for weights, _ in top], (None,))
    layer_weights = [
        results.LayerWeights(table.layer, table.sequence, _scores(received, table.weights)) for table in message.layer_weights
    ]
    _check_layers(asked.weights_choice, len(spans), layer_weights)
    check_sent(message, "summary")
    return results.AttendResult(
        output=output,
        lengths=[span.query_len for span in spans],
        summary=mirror(message.summary),
        weights=weights,
        log_sum_exp=sums,
        top_weights=[results.TopWeights(*tables) for tables in top],
        tokens=[_tokens(text) for text in message.tokens],
        layer_weights=layer_weights,
        _form=layout.form,
    )


def check_sent(message: Any, field: str) -> None:
    """Raises MalformedMessage unless the message has a field that each has."""
    if not message.HasField(field):
        raise _wrong(field, "one", "none")


def _tokens(text: Any) -> models.TokenizedText:
    if len(text.ids) != len(text.tokens):
        raise _wrong("tokens", f"one for each of {len(text.ids)} ids", len(text.tokens))
    described: models.TokenizedText = mirror(text)
    return described


def _check_number(what: str, expected: int, found: Sequence[Any]) -> None:
    if len(found) != expected:
        raise _wrong(f"number of {what}", expected, len(found))


def _check_tables(kind: str, spans: Sequence[Span], heads: Optional[int], tables: Sequence[Array], columns: RowShape) -> None:
    """Raises MalformedMessage unless each sequence of `spans` has a table of its rows, [heads, rows, *columns]."""
    _check_number(f"tables of {kind}", len(spans), tables)
    for span, table in zip(spans, tables):
        check_shape(kind, (), (heads, span.query_len, *columns), table.shape)


def _check_layers(choice: Any, num_sequences: int, tables: Sequence[results.LayerWeights]) -> None:
    """Raises MalformedMessage unless the weights are those of the chosen layers and heads, sequence by sequence."""
    expected = [(layer, sequence) for sequence in range(num_sequences) for layer in choice.layers]
    _check_number("tables of layer_weights", len(expected), tables)
    for i, (table, (layer, sequence)) in enumerate(zip(tables, expected)):
        if (table.layer, table.sequence) != (layer, sequence):
            raise _wrong(
                f"layer_weights[{i}]", f"layer {layer} of sequence {sequence}", f"layer {table.layer} of sequence {table.sequence}"
            )
        check_shape("layer_weights", (), (len(choice.heads) or None, None, None), table.weights.shape)


def read_block(received: Received, message: Any, home: Optional["np.dtype[Any]"]) -> results.Block:
    """Reads an AttendStreamResponse that is not the summary."""
    kind = message.WhichOneof("part")
    part: Any = getattr(message, kind) if kind else None
    if kind == "rows":
        return results.RowBlock(part.sequence, part.first_row, _rows(received, part.output, (2, 3), home))
    if kind == "tokens":
        return results.TokensBlock(part.sequence, part.first_token, _tokens(part.tokens))
    if kind not in ("weights", "log_sum_exp", "top_weights", "layer_weights"):
        raise MalformedMessage(f"message of a stream: expected a part of an answer, found {kind}")
    place = (part.sequence, part.head, part.first_row)
    if kind == "weights":
        return results.WeightsBlock(*place, _rows(received, part.weights, (2,), reader=_scores))
    if kind == "log_sum_exp":
        return results.LogSumExpBlock(*place, _rows(received, part.log_sum_exp, (1,), reader=_scores))
    if kind == "layer_weights":
        return results.LayerWeightsBlock(*place, _rows(received, part.weights, (2,), reader=_scores), part.layer)
    weights, keys = _top_weights(received, part.top_weights)
    if weights.ndim != 2:
        raise _wrong("number of extents of a block", 2, weights.ndim)
    return results.TopWeightsBlock(*place, weights, keys)


def _top_weights(received: Received, top: Any) -> Tuple[Array, Array]:
    """Reads the largest weights, and their keys."""
    weights, keys = _scores(received, top.weights), read(received, top.keys, dtypes=("INT32",))
    check_shape("keys of the largest weights", weights.shape, (), keys.shape)
    return weights, keys


def _scores(received: Received, tensor: Any, home: Optional["np.dtype[Any]"] = None) -> Array:
    return read(received, tensor, home, dtypes=("FP32",))


def _rows(
    received: Received, tensor: Any, ranks: Tuple[int, ...], home: Optional["np.dtype[Any]"] = None, reader: Any = read
) -> Array:
    rows = reader(received, tensor, home)
    if rows.ndim not in ranks:
        raise _wrong("number of extents of a block", " or ".join(map(str, ranks)), rows.ndim)
    return rows


@dataclasses.dataclass
class _Head:
    """The rows of a head of a sequence that have come."""

    columns: Tuple[int, ...]  # the extents of a row
    count: int = 0
    blocks: List[Array] = dataclasses.field(default_factory=list)  # none if rows are only counted


Key = Tuple[str, int, int]  # kind, layer, sequence


class Assembler:
    """Joins the blocks of a streamed answer, or only counts their rows. MalformedMessage for a block that does not fit."""

    def __init__(
        self,
        request: Any,
        home: Optional["np.dtype[Any]"],
        options: Any,
        choice: Any = None,
        has_output: bool = True,
        joins: bool = True,
    ) -> None:
        """`request` is an AttendRequest or DecodeStep, `home` the dtype of its answer, `choice` its WeightsChoice. `options` are None
        if they are not known. Without `has_output` only tokens fit. Without `joins` it keeps neither rows nor tokens."""
        self._joins = joins
        self._request = request
        self._home = home
        self._asked: Optional[Dict[str, bool]] = None  # whether a kind of scores was asked for, if that is known
        if options is not None:
            top = options.weights_top_k > 0
            self._asked = {
                "weights": options.return_weights, "log_sum_exp": options.return_log_sum_exp, "top_weights": top, "top_keys": top
            }  # fmt: skip
        self._top_k: int = options.weights_top_k if options is not None else 0
        self._has_output = has_output
        self._layers = list(choice.layers) if choice is not None else []
        self._heads = list(choice.heads) if choice is not None else []
        texts = len(request.text.texts) if request.WhichOneof("input") == "text" else 0
        self.tokens = [models.TokenizedText([], []) for _ in range(texts)]
        self._token_counts = [0] * texts
        self._layout: Optional[Layout] = None
        self._row_shape: RowShape = row_shape(request)  # what is known of it
        self._output: Optional[Array] = None  # [rows, ...], all leading extents in one
        self._received: List[int] = []
        self._scores: Dict[Key, List[_Head]] = {}

    def add(self, block: results.Block) -> None:
        if isinstance(block, results.TokensBlock):
            self._add_tokens(block)
        elif not self._has_output:
            raise _wrong("parts of a step without output", "tokens only", type(block).__name__)
        elif isinstance(block, results.RowBlock):
            self._add_rows(block)
        elif isinstance(block, results.LayerWeightsBlock):
            if block.layer not in self._layers or (self._heads and block.head not in self._heads):
                raise _wrong("layer_weights", "those of a chosen layer and head", f"layer {block.layer}, head {block.head}")
            head = self._heads.index(block.head) if self._heads else block.head
            self._add_scores("layer_weights", block.layer, head, block, block.rows)
        elif isinstance(block, results.TopWeightsBlock):
            self._add_scores("top_weights", 0, block.head, block, block.rows)
            self._add_scores("top_keys", 0, block.head, block, block.keys)
        else:
            kind = "weights" if isinstance(block, results.WeightsBlock) else "log_sum_exp"
            self._add_scores(kind, 0, block.head, block, block.rows)

    def check_whole(self) -> None:
        """Raises MalformedMessage unless all rows have come."""
        for span, received in zip(self._laid_out().spans, self._received):
            if received != span.output_rows:
                raise _wrong("rows of a sequence", span.output_rows, received)
        for key, num_heads, shape in self._tables():
            rows = [head.count for head in self._scores.get(key, [])]
            if rows != [shape[0]] * max(1, num_heads) and (rows or shape[0] > 0):
                raise _wrong(f"{key[0]} of a sequence", f"{num_heads} heads of {shape[0]} rows", rows)

    def finish(self, summary: models.Summary) -> results.AttendResult:
        """Returns all blocks joined. REQUIRES: `joins`."""
        self.check_whole()
        layout = self._laid_out()
        output = self._output
        if output is None:
            row = tuple(extent or 0 for extent in self._row_shape)
            output = np.zeros((math.prod(layout.leading),) + row, self._home or np.float32)
        joined = [(key, self._join(key, num_heads, shape)) for key, num_heads, shape in self._tables()]
        weights, sums, top, keys = ([table for key, table in joined if key[0] == kind] for kind in _KINDS)
        return results.AttendResult(
            output=output.reshape(layout.leading + output.shape[1:]),
            lengths=[span.query_len for span in layout.spans],
            summary=summary,
            weights=weights,
            log_sum_exp=sums,
            top_weights=[results.TopWeights(largest, of.astype(np.int32)) for largest, of in zip(top, keys)],
            tokens=self.tokens,
            layer_weights=[results.LayerWeights(*key[1:], table) for key, table in joined if key[0] == "layer_weights"],
            _form=layout.form,
        )

    def _laid_out(self) -> Layout:
        if self._layout is None:
            self._layout = layout_of(self._request, self._token_counts)
            self._received = [0] * len(self._layout.spans)
        return self._layout

    def _add_tokens(self, block: results.TokensBlock) -> None:
        if self._layout is not None or not 0 <= block.sequence < len(self.tokens):
            raise _wrong("tokens", f"those of {len(self.tokens)} texts before all rows", block.sequence)
        received = self._token_counts[block.sequence]
        if block.first_token != received:
            raise _wrong("first token of a block", received, block.first_token)
        self._token_counts[block.sequence] += len(block.tokens.ids)
        if self._joins:
            self.tokens[block.sequence].ids.extend(block.tokens.ids)
            self.tokens[block.sequence].tokens.extend(block.tokens.tokens)

    def _add_rows(self, block: results.RowBlock) -> None:
        layout = self._laid_out()
        if not 0 <= block.sequence < len(layout.spans):
            raise _wrong("sequence of a block", f"0 to {len(layout.spans) - 1}", block.sequence)
        if not len(block.rows):  # its width would be that of nothing
            raise _wrong("rows of a block", "at least 1", 0)
        check_shape("rows of a block", (len(block.rows),), self._row_shape, block.rows.shape)
        if self._output is None:
            self._row_shape = block.rows.shape[1:]
            rows = math.prod(layout.leading) if self._joins else 0
            try:  # padding is never sent
                self._output = np.zeros((rows,) + block.rows.shape[1:], block.rows.dtype)
            except (MemoryError, ValueError):
                raise _wrong("width of a block", "one that fits into memory", block.rows.shape[1:]) from None
        if block.rows.dtype != self._output.dtype:
            raise _wrong("dtype of a block", self._output.dtype, block.rows.dtype)
        span, received = layout.spans[block.sequence], self._received[block.sequence]
        if block.first_row != received or received + len(block.rows) > span.output_rows:
            raise _wrong("rows of a sequence", f"from {received} of {span.output_rows}", f"{len(block.rows)} from {block.first_row}")
        if self._joins:
            first = span.first_row + received
            self._output[first : first + len(block.rows)] = block.rows
        self._received[block.sequence] += len(block.rows)

    def _add_scores(self, kind: str, layer: int, head: int, block: Any, rows: Array) -> None:
        layout = self._laid_out()
        if self._asked is not None and not self._asked.get(kind, True):
            raise _wrong("block of scores", "one of a kind that was asked for", kind)
        heads = self._scores.setdefault((kind, layer, block.sequence), [])
        known = num_heads(self._request)
        last = len(heads) if known is None else min(len(heads), known - 1)
        if not 0 <= block.sequence < len(layout.spans) or not 0 <= head <= last:
            raise _wrong(f"sequence and head of {kind}", f"head 0 to {last}", f"{block.sequence}, {head}")
        if not len(rows):  # its width would be that of nothing
            raise _wrong(f"rows of a block of {kind}", "at least 1", 0)
        if head == len(heads):
            heads.append(_Head(heads[0].columns if heads else rows.shape[1:]))
        of = heads[head]
        if rows.shape[1:] != of.columns:
            raise _wrong(f"width of {kind}", of.columns, rows.shape[1:])
        span = layout.spans[block.sequence]
        most = max(span.query_len, span.kv_len) if kind == "layer_weights" else span.query_len
        if block.first_row != of.count or of.count + len(rows) > most:
            raise _wrong(f"rows of {kind}", f"from {of.count} of {most}", f"{len(rows)} from {block.first_row}")
        of.count += len(rows)
        if self._joins:
            of.blocks.append(rows)

    def _tables(self) -> Iterator[Tuple[Key, int, Tuple[int, ...]]]:
        """Yields the key of each table that was asked for or came, its number of heads, and the shape of a head, except for columns
        that a layer adds."""
        spans = self._laid_out().spans
        known = num_heads(self._request)
        most: Dict[Tuple[str, int], int] = {}
        for (kind, layer, _), heads in self._scores.items():
            most[kind, layer] = max(most.get((kind, layer), 0), len(heads))
        for kind in _KINDS:
            found = most.get((kind, 0), 0)
            if found == 0 and not (self._asked and self._asked[kind]):
                continue
            for sequence, span in enumerate(spans):
                width = min(self._top_k, span.kv_len) if kind.startswith("top") else span.kv_len
                shape = (span.query_len,) if kind == "log_sum_exp" else (span.query_len, width)
                yield (kind, 0, sequence), found if known is None else known, shape
        for sequence, span in enumerate(spans if self._layers else []):
            for layer in self._layers:
                key = ("layer_weights", layer, sequence)
                first = self._scores.get(key, [])
                is_encoder = bool(first) and first[0].count == span.kv_len  # those have the rows of the memory
                rows = span.kv_len if is_encoder else span.query_len
                yield key, max(len(self._heads), most.get(key[:2], 0)), (rows, span.kv_len)

    def _join(self, key: Key, num_heads: int, shape: Tuple[int, ...]) -> Array:
        """Joins [num_heads, rows, ...]. REQUIRES: check_whole passed."""
        heads = self._scores.get(key, [])
        return np.stack([np.concatenate(head.blocks) for head in heads]) if heads else np.zeros((num_heads,) + shape, np.float32)


def _wrong(what: str, expected: Any, found: Any) -> MalformedMessage:
    return MalformedMessage(f"{what}: expected {expected}, found {found}")
