"""Makes all requests: messages of the keywords of calls."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from attend import _keywords, _proto
from attend._dlpack import as_array
from attend._tensors import TensorWriter, home_dtype, wire_dtype
from attend._wire import encode

Array = Any  # a numpy array of any dtype
_INPUTS = ("hidden_states", "token_ids", "text", "query")


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
    message.model = keywords.get("model") or ""
    home = _write_input(hidden_states, keywords, message, writer)
    if message.WhichOneof("input") != "query_key_value" and not message.model:
        raise ValueError("model: expected a name, found none (only query, key and value go without)")
    _copy_fields(("layer", "model_version"), keywords, message)
    _write_model_output(keywords, message)
    if keywords.get("weights_choice") is not None:
        message.weights_choice.MergeFrom(_proto.message_class("WeightsChoice")(**keywords["weights_choice"]))
    _write_options(keywords, message, writer)
    return Request(message, writer, home)


def open_request(keywords: Mapping[str, Any]) -> Request:
    """Makes the DecodeRequest that opens a session."""
    _keywords.check_names(keywords, _keywords.SessionKeywords, "session")
    message = _proto.message_class("DecodeRequest")()
    opening = message.open
    opening.SetInParent()
    writer = TensorWriter()
    _copy_fields(("model", "model_version", "layer"), keywords, opening)
    heads = dict(keywords.get("heads") or {})
    if heads:
        heads["dtype"] = _proto.enum_number("DataType", heads.get("dtype", "fp32"), "heads.dtype")
        opening.heads.MergeFrom(_proto.message_class("AttentionHeads")(**heads))
    if keywords.get("cache_dtype") is not None:
        opening.cache_dtype = _proto.enum_number("DataType", keywords["cache_dtype"], "cache_dtype")
    opening.resume_ttl_ms = round(1000 * (keywords.get("resume_ttl") or 0))
    opening.resume_token = keywords.get("resume_token") or ""
    _write_options(keywords, opening, writer)
    return Request(message, writer, None)


def step_request(hidden_states: Any, keywords: Mapping[str, Any]) -> Request:
    """Makes the DecodeRequest of a step."""
    _keywords.check_names(keywords, _keywords.StepKeywords, "step")
    message = _proto.message_class("DecodeRequest")()
    message.sequence = keywords.get("sequence", 0)
    message.step.SetInParent()
    writer = TensorWriter()
    home = _write_input(hidden_states, keywords, message.step, writer)
    _write_model_output(keywords, message.step)
    message.step.top_logits = keywords.get("top_logits", 0)
    message.step.no_output = keywords.get("no_output", False)
    return Request(message, writer, home)


def _copy_fields(names: Sequence[str], keywords: Mapping[str, Any], message: Any) -> None:
    for name in names:
        if keywords.get(name) is not None:
            setattr(message, name, keywords[name])


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
    if kinds == ["token_ids"]:
        _write_tokens(given, message.token_ids)
        return None
    if kinds == ["text"]:
        texts = given["text"]
        message.text.texts.extend([texts] if isinstance(texts, str) else texts)
        message.text.no_special_tokens = bool(given.get("no_special_tokens"))
        return None
    write = _write_hidden_states if kinds == ["hidden_states"] else _write_query_key_value
    return write(given, message, writer)


def _write_hidden_states(given: Mapping[str, Any], message: Any, writer: TensorWriter) -> "np.dtype[Any]":
    wire = message.hidden_states
    home = None
    for name, field, lengths in (
        ("hidden_states", "tensor", wire.lengths),
        ("memory", "memory", wire.memory_lengths),
        ("memory_values", "memory_values", None),
    ):
        if given.get(name) is None:
            continue
        rows, of_list = rows_of(given[name], name)
        writer.write(rows, wire_dtype(rows, given.get("dtype"), name), getattr(wire, field))
        home = home or home_dtype(rows)
        if lengths is not None:
            _write_lengths(lengths, "lengths" if name == "hidden_states" else "memory_lengths", given, of_list)
    assert home is not None
    return home


def _write_query_key_value(given: Mapping[str, Any], message: Any, writer: TensorWriter) -> "np.dtype[Any]":
    wire = message.query_key_value
    home = None
    for name, lengths in (("query", wire.lengths), ("key", wire.kv_lengths), ("value", None)):
        if given.get(name) is None:
            raise ValueError(f"{name}: expected rows beside query, found none")
        rows, of_list = rows_of(given[name], name)
        writer.write(rows, wire_dtype(rows, given.get("dtype"), name), getattr(wire, name))
        home = home or home_dtype(rows)
        if lengths is not None:
            _write_lengths(lengths, "lengths" if name == "query" else "kv_lengths", given, of_list)
    wire.query_offsets.extend(_integers(given.get("query_offsets"), "query_offsets"))
    assert home is not None
    return home


def _write_tokens(given: Mapping[str, Any], wire: Any) -> None:
    ids, of_list = _packed_integers(given["token_ids"], "token_ids")
    wire.ids.extend(ids)
    _write_lengths(wire.lengths, "lengths", given, of_list)
    if given.get("type_ids") is not None:
        wire.type_ids.extend(_packed_integers(given["type_ids"], "type_ids")[0])


def _write_lengths(wire: Any, name: str, given: Mapping[str, Any], of_list: Optional[List[int]]) -> None:
    """Writes the lengths: `of_list`, if the rows were a list of sequences, else the keyword `name`."""
    lengths = given.get(name)
    if lengths is not None and of_list is not None:
        raise ValueError(f"{name}: expected none beside a list of sequences, found {list(lengths)}")
    wire.extend(_integers(lengths, name) if of_list is None else of_list)


def _write_model_output(keywords: Mapping[str, Any], message: Any) -> None:
    if keywords.get("model_output") is not None:
        message.model_output = _proto.enum_number("ModelOutput", keywords["model_output"], "model_output")


def _write_options(keywords: Mapping[str, Any], message: Any, writer: TensorWriter) -> None:
    fields = {
        name: value
        for name, value in keywords.items()
        if name in _keywords.OPTION_NAMES and name not in ("bias", "mask") and value is not None
    }
    if "similarity" in fields:
        fields["similarity"] = _proto.enum_number("Similarity", fields["similarity"], "similarity")
    if "scaling" in fields.get("rotary", {}):
        scaling = _proto.enum_number("Rotary.Scaling", fields["rotary"]["scaling"], "rotary.scaling")
        fields["rotary"] = dict(fields["rotary"], scaling=scaling)
    if fields:
        message.options.MergeFrom(_proto.message_class("AttentionOptions")(**fields))
    for name, dtype, kind in (("bias", np.float32, "FP32"), ("mask", np.bool_, "BOOL")):
        if keywords.get(name) is not None:
            scores = np.asarray(keywords[name], dtype)
            writer.write(scores.reshape((1,) * (4 - scores.ndim) + scores.shape), kind, getattr(message.options, name))


def rows_of(value: Any, name: str) -> Tuple[Array, Optional[List[int]]]:
    """Returns rows as one array, and, for a list of sequences, which it packs one after the other, their lengths."""
    if isinstance(value, (list, tuple)) and any(hasattr(part, "__array__") or hasattr(part, "__dlpack__") for part in value):
        parts = [as_array(part, name) for part in value]
        kinds = {(part.shape[1:], part.dtype) for part in parts}
        if len(kinds) > 1 or parts[0].ndim < 2:
            found = ", ".join(f"{part.dtype} {list(part.shape)}" for part in parts[:4])
            raise ValueError(f"{name}: expected sequences [n, ...] that differ in n only, found {found}")
        return np.concatenate(parts), [len(part) for part in parts]
    return as_array(value, name), None


def _packed_integers(value: Any, name: str) -> Tuple[List[int], Optional[List[int]]]:
    """Packs integers [n], a list of such, or [B, S]. Returns them, and the lengths of the sequences of all but the first form."""
    if len(value) > 0 and np.ndim(value[0]) > 0:
        parts = [_integers(part, name) for part in value]
        return [id for part in parts for id in part], [len(part) for part in parts]
    return _integers(value, name), None


def _integers(values: Optional[Sequence[int]], name: str) -> List[int]:
    array = np.asarray([] if values is None else values)
    if array.size > 0 and (array.ndim != 1 or array.dtype.kind not in "iu"):
        raise TypeError(f"{name}: expected integers [n], found {array.dtype} {list(array.shape)}")
    return [int(value) for value in array]
