"""The keywords of requests: one list of them for both clients, for unary calls, streams and sessions."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Optional, Protocol, Sequence, TypedDict, TypeVar, Union

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    class DlpackTensor(Protocol):
        """A tensor of torch, or of whatever else speaks DLPack, on the CPU."""

        def __dlpack__(self) -> Any: ...

        def __dlpack_device__(self) -> Any: ...

    Rows = Union[ArrayLike, DlpackTensor, Sequence[ArrayLike], Sequence[DlpackTensor]]
    """One array, or a list of arrays: sequences of different lengths."""
    Tokens = Union[Sequence[int], Sequence[Sequence[int]], np.ndarray[Any, Any]]


class RotaryKeywords(TypedDict, total=False):
    """Rotary of attention.proto."""

    dim: int
    base: float
    interleaved: bool
    scaling: str  # "none", "linear" or "llama3"
    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_positions: int
    position_offset: int


class RmsNormKeywords(TypedDict, total=False):
    """RmsNorm of attention.proto."""

    weight: Sequence[float]
    epsilon: float


class SequenceKeywords(TypedDict, total=False):
    """SequenceOptions of attention.proto."""

    causal: bool
    window: int
    window_right: int
    window_dilation: int
    prefix: int
    global_tokens: Sequence[int]


class OptionKeywords(TypedDict, total=False):
    """What kind of attention: the fields of AttentionOptions, where each is explained."""

    causal: bool
    scale: float
    return_weights: bool
    window: int
    window_right: int
    window_dilation: int
    prefix: int
    global_tokens: Sequence[int]
    softcap: float
    alibi_slopes: Sequence[float]
    sinks: Sequence[float]
    rotary: RotaryKeywords
    query_norm: RmsNormKeywords
    key_norm: RmsNormKeywords
    similarity: str  # "dot_product", "gaussian", "box", "triangular" or "linear"
    bandwidth: float
    bias: "ArrayLike"  # [Sq, Sk], [H, Sq, Sk] or [1 or B, 1 or H, Sq, Sk], added to the logits
    mask: "ArrayLike"  # bool, in those shapes; False hides a key
    return_log_sum_exp: bool
    weights_top_k: int
    sequences: Sequence[SequenceKeywords]


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


class WeightsChoiceKeywords(TypedDict, total=False):
    """WeightsChoice of attention.proto."""

    layers: Sequence[int]
    heads: Sequence[int]  # all unless set


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


class HeadsKeywords(TypedDict, total=False):
    """AttentionHeads of attention.proto: a session of attention without a model."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_head_dim: int
    dtype: str  # "fp32", "fp16" or "bf16"


class SessionKeywords(OptionKeywords, total=False):
    """What a session runs through."""

    model: str
    model_version: int
    layer: int
    heads: HeadsKeywords
    cache_dtype: str  # "fp32", "bf16" or "int8"
    resume_ttl: float  # seconds that a broken session waits to be resumed
    resume_token: str  # of the session to take over; nothing else goes with it


class StepKeywords(InputKeywords, total=False):
    """The next tokens of a sequence."""

    sequence: int
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
