"""The keywords of requests: one list of them for both clients, for unary calls, streams and sessions. Those of the parts of a
request are made of attention.proto (models.py): OptionKeywords has all options of attention, WeightsChoiceKeywords, HeadsKeywords."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Protocol, Sequence, TypedDict, TypeVar, Union

import numpy as np

from attend.models import HeadsKeywords, OptionKeywords, WeightsChoiceKeywords

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    class DlpackTensor(Protocol):
        """A tensor of torch, or of whatever else speaks DLPack, on the CPU."""

        def __dlpack__(self) -> Any: ...

        def __dlpack_device__(self) -> Any: ...

    Rows = Union[ArrayLike, DlpackTensor, Sequence[ArrayLike], Sequence[DlpackTensor]]
    """One array, or a list of arrays: sequences of different lengths."""
    Tokens = Union[Sequence[int], Sequence[Sequence[int]], np.ndarray[Any, Any]]


class InputKeywords(TypedDict, total=False):
    """What goes in instead of hidden states: one of token ids, texts, and query with key and value."""

    token_ids: "Tokens"  # [n] ids, or a list of such
    text: Union[str, Sequence[str]]  # for the model's own tokenizer
    query: "Rows"  # [B, Sq, H, D] or [T, H, D], or a list of [n, H, D]
    key: "Rows"  # [B, Sk, Hkv, D] or [Tk, Hkv, D], or a list
    value: "Rows"  # [B, Sk, Hkv, Dv] or [Tk, Hkv, Dv], or a list
    type_ids: "Tokens"  # in the form of token_ids
    no_special_tokens: bool  # leaves out what the tokenizer puts around a text
    dtype: Optional[str]  # "fp32", "fp16" or "bf16": how rows travel and are computed; else as they are
    model_output: str  # "last_hidden_states", "mean_pooled", "cls_pooled", "logits" or "last_logits"


class AttendKeywords(InputKeywords, OptionKeywords, total=False):
    """All of a request but for its hidden states."""

    model: str
    model_version: int
    layer: int  # attention of this layer; else the whole stack
    memory: "Rows"  # [B, Sm, E] or [Tm, E], or a list: what keys and values come from
    memory_values: "Rows"
    lengths: Sequence[int]  # not with lists, which tell theirs
    memory_lengths: Sequence[int]
    kv_lengths: Sequence[int]
    query_offsets: Sequence[int]
    weights_choice: WeightsChoiceKeywords  # of a whole stack: also the attention weights of these layers


class SessionKeywords(OptionKeywords, total=False):
    """What a session runs through."""

    model: str
    model_version: int
    layer: int
    heads: HeadsKeywords  # attention without a model
    cache_dtype: str  # "fp32", "bf16" or "int8"
    resume_ttl: float  # seconds that a broken session waits to be resumed
    resume_token: str  # of the session to take over; nothing else goes with it


class StepKeywords(InputKeywords, total=False):
    """The next tokens of a sequence."""

    sequence: int
    query_offsets: Sequence[int]  # of query, one value: where its first row stands; key may then have any number of rows
    top_logits: int  # instead of an output, so many of the largest logits
    no_output: bool


F = TypeVar("F", bound=Callable[..., Any])


def spelled_out(keywords: type) -> Callable[[F], F]:
    """For help() and notebooks: gives a method, whose last argument is **keywords, a signature that names each of them."""

    def give_signature(method: F) -> F:
        signature = inspect.signature(method)
        others = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        named = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=getattr(kind, "__forward_arg__", kind)
            )
            for name, kind in keywords.__annotations__.items()
        ]
        method.__signature__ = signature.replace(parameters=others + named)  # type: ignore[attr-defined]
        return method

    return give_signature


OPTION_NAMES = frozenset(OptionKeywords.__annotations__)
INPUT_NAMES = frozenset(InputKeywords.__annotations__)


def check_names(keywords: Mapping[str, Any], allowed: type, call: str) -> None:
    """TypeError for a keyword that `allowed`, one of the classes above, does not have."""
    names: List[str] = [name for name in keywords if name not in allowed.__annotations__]
    if names:
        raise TypeError(f"{call}() got an unexpected keyword argument {names[0]!r}")
