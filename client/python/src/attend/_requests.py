"""Makes all requests: messages of the keywords of calls."""

from __future__ import annotations

import reprlib
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from attend import _fields, _keywords, _proto
from attend._dlpack import as_array, check_unmasked
from attend._tensors import TensorWriter, home_dtype, wire_dtype
from attend._wire import encode

Array = Any  # a numpy array of any dtype
# The kinds of input, and the keywords that belong to each.
_INPUTS = {
    "hidden_states": ("lengths", "memory", "memory_lengths", "memory_values", "dtype"),
    "token_ids": ("lengths", "type_ids"),
    "text": ("no_special_tokens",),
    "query": ("key", "value", "lengths", "kv_lengths", "query_offsets", "dtype"),
}
_BESIDE = sorted({name for names in _INPUTS.values() for name in names})
# One sequence of a list.
_SEQUENCES = {"query": "[n, H, D]", "key": "[n, Hkv, D]", "value": "[n, Hkv, Dv]"}


class Request:
    """An AttendRequest or DecodeRequest, which borrows the caller's tensors."""

    def __init__(self, message: Any, writer: TensorWriter, home: Optional["np.dtype[Any]"]) -> None:
        self.message = message
        self.home = home  # dtype of the answer: that of the input's rows; None: float32
        self._writer = writer

    def encode(self) -> bytes:
        return encode(self.message, self._writer.payloads)


def attend_request(hidden_states: Any, keywords: Mapping[str, Any]) -> Request:
    """Makes an AttendRequest. TypeError and ValueError for keywords that no request can have; the server checks all else."""
    _keywords.check_names(keywords, _keywords.AttendKeywords, "attend")
    message = _proto.message_class("AttendRequest")()
    writer = TensorWriter()
    _write_fields(("model", "layer", "model_version", "model_output", "weights_choice"), keywords, message)
    home = _write_input(hidden_states, keywords, message, writer)
    if message.WhichOneof("input") != "query_key_value" and not message.model:
        raise ValueError("model: expected a name, found none (only query, key and value go without)")
    _write_options(keywords, message, writer)
    return Request(message, writer, home)


def open_request(keywords: Mapping[str, Any]) -> Request:
    """Makes the DecodeRequest that opens a session."""
    _keywords.check_names(keywords, _keywords.SessionKeywords, "session")
    message = _proto.message_class("DecodeRequest")()
    opening = message.open
    opening.SetInParent()
    writer = TensorWriter()
    _write_fields(("model", "model_version", "layer", "heads", "cache_dtype", "resume_token"), keywords, opening)
    resume_ttl = keywords.get("resume_ttl") or 0.0
    if resume_ttl != 0 and _fields.seconds(resume_ttl, "resume_ttl") < 0.001:
        raise ValueError(f"resume_ttl: expected 0, or 0.001 seconds and more, found {resume_ttl}")
    opening.resume_ttl_ms = round(1000 * resume_ttl)
    _write_options(keywords, opening, writer)
    return Request(message, writer, None)


def step_request(hidden_states: Any, keywords: Mapping[str, Any]) -> Request:
    """Makes the DecodeRequest of a step."""
    _keywords.check_names(keywords, _keywords.StepKeywords, "step")
    message = _proto.message_class("DecodeRequest")()
    message.sequence = _fields.integer(keywords.get("sequence", 0), "sequence")
    message.step.SetInParent()
    writer = TensorWriter()
    home = _write_input(hidden_states, keywords, message.step, writer)
    if len(message.step.token_ids.lengths) == 1:  # a list of one sequence
        del message.step.token_ids.lengths[:]
    _write_fields(("model_output", "top_logits", "no_output"), keywords, message.step)
    message.step.join_parts = True
    return Request(message, writer, home)


def _write_fields(names: Sequence[str], keywords: Mapping[str, Any], message: Any) -> None:
    _fields.write(message, {name: keywords.get(name) for name in names})


def _write_input(
    hidden_states: Any, keywords: Mapping[str, Any], message: Any, writer: TensorWriter
) -> Optional["np.dtype[Any]"]:
    """Writes the input. Returns the dtype of the answer; None: float32."""
    given = dict(keywords, hidden_states=hidden_states)
    kinds = [name for name in _INPUTS if given.get(name) is not None]
    if not kinds and given.get("memory") is not None:
        kinds = ["hidden_states"]  # the encoder alone
    if len(kinds) != 1:
        found = " and ".join(kinds) or "none"
        raise ValueError(f"input: expected one of hidden_states, token_ids, text, or query with key and value; found {found}")
    kind = kinds[0]
    for name in _BESIDE:
        if name not in _INPUTS[kind] and given.get(name) is not None and given[name] is not False:
            owners = " or ".join(owner for owner, names in _INPUTS.items() if name in names)
            raise TypeError(f"{name}: expected beside {owners} only, found beside {kind}")
    if kind == "token_ids":
        _write_tokens(given, message.token_ids)
        return None
    if kind == "text":
        texts = given["text"]
        is_one = isinstance(texts, (str, bytes)) or not hasattr(texts, "__iter__")
        message.text.SetInParent()
        _fields.write_field(message.text, "texts", [texts] if is_one else texts, "text")
        _write_fields(("no_special_tokens",), given, message.text)
        return None
    write = _write_hidden_states if kind == "hidden_states" else _write_query_key_value
    return write(given, message, writer)


def _write_hidden_states(given: Mapping[str, Any], message: Any, writer: TensorWriter) -> "np.dtype[Any]":
    wire = message.hidden_states
    home = None
    for name, field, lengths in (
        ("hidden_states", "tensor", "lengths"),
        ("memory", "memory", "memory_lengths"),
        ("memory_values", "memory_values", ""),
    ):
        if given.get(name) is None:
            if given.get(lengths) is not None:
                raise TypeError(f"{lengths}: expected beside {name} only, found without")
            continue
        rows, of_list = rows_of(given[name], name)
        writer.write(rows, wire_dtype(rows, given.get("dtype"), name), getattr(wire, field))
        home = home or home_dtype(rows)
        if lengths:
            _write_lengths(getattr(wire, lengths), lengths, given, of_list)
        else:
            _check_lengths(name, of_list, "memory", wire.memory_lengths or wire.memory.shape[:1])
    assert home is not None
    return home


def _write_query_key_value(given: Mapping[str, Any], message: Any, writer: TensorWriter) -> "np.dtype[Any]":
    wire = message.query_key_value
    home = None
    for name, lengths in (("query", "lengths"), ("key", "kv_lengths"), ("value", "")):
        if given.get(name) is None:
            raise ValueError(f"{name}: expected rows beside query, found none")
        rows, of_list = rows_of(given[name], name)
        writer.write(rows, wire_dtype(rows, given.get("dtype"), name), getattr(wire, name))
        home = home or home_dtype(rows)
        if lengths:
            _write_lengths(getattr(wire, lengths), lengths, given, of_list)
        else:
            _check_lengths(name, of_list, "key", wire.kv_lengths or wire.key.shape[:1])
    wire.query_offsets.extend(_integers(given.get("query_offsets"), "query_offsets"))
    assert home is not None
    return home


def _write_tokens(given: Mapping[str, Any], wire: Any) -> None:
    ids, of_list = _packed_integers(given["token_ids"], "token_ids")
    wire.ids.extend(ids)
    _write_lengths(wire.lengths, "lengths", given, of_list)
    if given.get("type_ids") is not None:
        types, of_list = _packed_integers(given["type_ids"], "type_ids")
        wire.type_ids.extend(types)
        _check_lengths("type_ids", of_list, "token_ids", wire.lengths or [len(ids)])


def _write_lengths(wire: Any, name: str, given: Mapping[str, Any], of_list: Optional[List[int]]) -> None:
    """Writes the lengths: `of_list`, if the rows were a list of sequences, else the keyword `name`."""
    lengths = given.get(name)
    if lengths is not None and of_list is not None:
        raise ValueError(f"{name}: expected none beside a list of sequences, found {reprlib.repr(lengths)}")
    wire.extend(_integers(lengths, name) if of_list is None else of_list)


def _check_lengths(name: str, of_list: Optional[List[int]], other: str, lengths: Sequence[int]) -> None:
    """Checks that a list of sequences has the lengths of `other`: on the wire they are written once."""
    if of_list is not None and of_list != list(lengths):
        raise ValueError(f"{name}: expected sequences as long as those of {other}, {list(lengths)}, found {of_list}")


def _write_options(keywords: Mapping[str, Any], message: Any, writer: TensorWriter) -> None:
    options = {name: value for name, value in keywords.items() if name in _keywords.OPTION_NAMES and value is not None}
    for name, kind, read in (("bias", "FP32", _bias), ("mask", "BOOL", _mask)):
        if name in options:
            scores = read(options.pop(name))
            writer.write(scores.reshape((1,) * (4 - scores.ndim) + scores.shape), kind, getattr(message.options, name))
    if options:
        _fields.write(message.options, options)


def _bias(value: Any) -> Array:
    check_unmasked(value, "bias")
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("b", "c"):
        raise TypeError(f"bias: expected numbers to add to logits [.., Sq, Sk], found {value.dtype} (mask= leaves keys out)")
    try:
        with np.errstate(all="ignore"):  # a bias of finfo(float64).min is -inf
            return np.asarray(value, np.float32)
    except (TypeError, ValueError) as error:
        raise TypeError(f"bias: expected numbers [.., Sq, Sk], found others: {error}") from None


def _mask(value: Any) -> Array:
    check_unmasked(value, "mask")
    try:
        mask = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"mask: expected bool [.., Sq, Sk], found others: {error}") from None
    if mask.dtype.kind not in "biu" or (mask.dtype.kind != "b" and (mask != mask.astype(np.bool_)).any()):
        found = mask.dtype.name if mask.dtype.kind not in "iu" else "other integers"
        raise TypeError(f"mask: expected bool, or integers 0 and 1, found {found} (bias= adds numbers to logits)")
    return mask


def rows_of(value: Any, name: str) -> Tuple[Array, Optional[List[int]]]:
    """Returns rows as one array, and, for a list of sequences, which it packs one after the other, their lengths."""
    if isinstance(value, (list, tuple)) and any(hasattr(part, "__array__") or hasattr(part, "__dlpack__") for part in value):
        form = _SEQUENCES.get(name, "[n, E]")
        parts = [as_array(part, name) for part in value]
        for part in parts:
            if part.ndim != len(form.split(",")):
                raise ValueError(f"{name}: expected sequences {form}, found {list(part.shape)}")
        kinds = {(part.shape[1:], part.dtype) for part in parts}
        if len(kinds) > 1:
            found = ", ".join(f"{part.dtype} {list(part.shape)}" for part in parts[:4])
            raise ValueError(f"{name}: expected sequences {form} that differ in n only, found {found}")
        return np.concatenate(parts), [len(part) for part in parts]
    return as_array(value, name), None


def _packed_integers(value: Any, name: str) -> Tuple[List[int], Optional[List[int]]]:
    """Packs integers [n], a list of such, or [B, S]. Returns them, and the lengths of the sequences of all but the first form."""
    try:
        is_list = len(value) > 0 and np.ndim(value[0]) > 0
    except (LookupError, TypeError, ValueError):
        is_list = False  # nor are they integers
    if not is_list:
        return _integers(value, name, 32), None
    parts = [_integers(part, name, 32) for part in value]
    return [id for part in parts for id in part], [len(part) for part in parts]


def _integers(values: Optional[Sequence[int]], name: str, bits: int = 64) -> List[int]:
    """Returns integers [n], if `bits` suffice for each."""
    try:
        array = np.asarray([] if values is None else values)
    except ValueError:
        raise TypeError(f"{name}: expected integers [n], found lists of several lengths") from None
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise TypeError(f"{name}: expected integers [n], found {array.dtype} {list(array.shape)}")
    if array.size > 0:
        _fields.integer(array.min(), name, bits)
        _fields.integer(array.max(), name, bits)
    return [int(value) for value in array]
