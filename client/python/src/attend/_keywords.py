"""The keywords of unary calls, streams and sessions, for both clients. The keywords of messages within a request are made of
attention.proto (models.py): OptionKeywords (all options of attention), WeightsChoiceKeywords, HeadsKeywords."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Protocol, Sequence, TypedDict, TypeVar, Union

import numpy as np

from attend.models import HeadsKeywords, OptionKeywords, WeightsChoiceKeywords

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike

    class DlpackTensor(Protocol):
        """A tensor on the CPU of torch, or of another library with DLPack."""

        def __dlpack__(self) -> Any: ...

        def __dlpack_device__(self) -> Any: ...

    Rows = Union[ArrayLike, DlpackTensor, Sequence[ArrayLike], Sequence[DlpackTensor]]
    """An array, or a list of arrays: sequences of different lengths."""
    Ints = Union[Sequence[int], np.ndarray[Any, Any]]
    Tokens = Union[Ints, Sequence[Ints]]


class InputKeywords(TypedDict, total=False):
    """The inputs of a request beside hidden_states: a request has one of token_ids, text, and query with key and value."""

    token_ids: "Tokens"  # [n] ids, or a list of such
    text: Union[str, Sequence[str]]  # tokenized by the model's tokenizer
    query: "Rows"  # [B, Sq, H, D] or [T, H, D], or a list of [n, H, D]
    key: "Rows"  # [B, Sk, Hkv, D] or [Tk, Hkv, D], or a list
    value: "Rows"  # [B, Sk, Hkv, Dv] or [Tk, Hkv, Dv], or a list
    type_ids: "Tokens"  # in the form of token_ids
    no_special_tokens: bool  # omits the special tokens that the tokenizer adds to a text
    dtype: "DTypeLike"  # of rows on the wire and in computation: "fp32", "fp16" or "bf16", or numpy's; default: their own
    model_output: str  # "last_hidden_states", "mean_pooled", "cls_pooled", "logits" or "last_logits"


class AttendKeywords(InputKeywords, OptionKeywords, total=False):
    """The keywords of a request, except hidden_states."""

    model: str
    model_version: int
    layer: int  # runs the attention of this layer; default: the whole stack
    memory: "Rows"  # rows of the keys and values of cross-attention: [B, Sm, E] or [Tm, E], or a list
    memory_values: "Rows"  # rows of the values alone, if they differ from memory
    lengths: "Ints"  # of each sequence of hidden_states, token_ids or query; not beside a list
    memory_lengths: "Ints"
    kv_lengths: "Ints"
    query_offsets: "Ints"
    weights_choice: WeightsChoiceKeywords  # of a whole stack: the layers and heads whose weights are returned


class SessionKeywords(OptionKeywords, total=False):
    """The keywords of a session: its model or heads, and its options."""

    model: str
    model_version: int
    layer: int
    heads: HeadsKeywords  # of attention without a model
    cache_dtype: "DTypeLike"  # of kept keys and values: "fp32" (default), "bf16" or "int8"
    resume_ttl: float  # the seconds for which the server keeps a broken session; 0 (default): none
    resume_token: str  # of the session to resume; no other keyword may be given


class StepKeywords(InputKeywords, total=False):
    """The keywords of a step: the next tokens of a sequence."""

    sequence: int  # default: 0
    query_offsets: "Ints"  # one value: the position of the first row of query; key may then have another number of rows
    top_logits: int  # k > 0: returns the k largest logits after the last token instead of an output
    no_output: bool  # only adds the tokens


F = TypeVar("F", bound=Callable[..., Any])


def spelled_out(keywords: type) -> Callable[[F], F]:
    """Gives a method with **keywords a signature that names each of them, for help() and notebooks."""

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


def check_names(keywords: Mapping[str, Any], allowed: type, call: str) -> None:
    """Raises TypeError for a keyword that `allowed`, one of the classes above, does not have."""
    names: List[str] = [name for name in keywords if name not in allowed.__annotations__]
    if names:
        raise TypeError(f"{call}() got an unexpected keyword argument {names[0]!r}")
