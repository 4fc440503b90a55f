"""Answers, as plain classes; fields are those of the messages of the same names in attention.proto."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Optional, Union

import numpy as np

from attend.models import SessionUsage, Summary, TokenizedText, TopLogits

Array = np.ndarray[Any, np.dtype[Any]]
"""Of ml_dtypes.bfloat16 where such rows were given. torch.from_dlpack takes the others without a copy."""


@dataclasses.dataclass(frozen=True, eq=False)
class TopWeights:
    """The largest weights of each row of one sequence, largest first, both [H, query_len, k]; key -1 for none."""

    weights: Array
    keys: Array


@dataclasses.dataclass(frozen=True, eq=False)
class LayerWeights:
    """Attention weights [chosen heads, query_len, kv_len] of one layer and sequence, in a run of the whole stack."""

    layer: int
    sequence: int
    weights: Array


@dataclasses.dataclass(frozen=True, eq=False)
class AttendResult:
    """An answer.

    `output` is [B, S, E] or [T, E] as the input was (lists of sequences, token ids and texts: packed, [T, E]); [N, E],
    [T, V] or [N, V] as asked by `model_output=`; [B, Sq, H, Dv] or [T, H, Dv] for query, key and value. It has the dtype of the
    rows that were given (float32 for float64), and float32 for tokens and texts.
    """

    output: Array
    lengths: List[int]  # rows of each sequence
    summary: Summary
    weights: List[Array]  # with return_weights: float32 [H, query_len, kv_len] for each sequence
    log_sum_exp: List[Array]  # with return_log_sum_exp: float32 [H, query_len] for each sequence
    top_weights: List[TopWeights]  # with weights_top_k: one for each sequence
    tokens: List[TokenizedText]  # of texts: one for each
    layer_weights: List[LayerWeights]  # with weights_choice: for each sequence its layers, in order
    _form: str = "packed"  # or "padded", "pooled"

    def split(self) -> List[Array]:
        """The output of each sequence, without padding: views of `output`, [n, ...], or [...] when pooled."""
        if self._form == "pooled":
            return list(self.output)
        if self._form == "padded":
            return [rows[:length] for rows, length in zip(self.output, self.lengths)]
        ends = np.cumsum(self.lengths, dtype=np.int64)
        return [self.output[end - length : end] for end, length in zip(ends, self.lengths)]


@dataclasses.dataclass(frozen=True, eq=False)
class RowBlock:
    """Rows of one sequence's output, [rows, E] or [rows, H, Dv]; those of a sequence come in order, without gaps."""

    sequence: int
    first_row: int
    rows: Array


@dataclasses.dataclass(frozen=True, eq=False)
class WeightsBlock:
    """Rows [rows, kv_len] of one head's weights."""

    sequence: int
    head: int
    first_row: int
    rows: Array


@dataclasses.dataclass(frozen=True, eq=False)
class LogSumExpBlock:
    """Rows [rows] of one head's log-sum-exp."""

    sequence: int
    head: int
    first_row: int
    rows: Array


@dataclasses.dataclass(frozen=True, eq=False)
class TopWeightsBlock:
    """Rows [rows, k] of one head's largest weights, and their keys."""

    sequence: int
    head: int
    first_row: int
    rows: Array
    keys: Array


@dataclasses.dataclass(frozen=True, eq=False)
class LayerWeightsBlock:
    """Rows [rows, kv_len] of one head's weights in one layer."""

    layer: int
    sequence: int
    head: int
    first_row: int
    rows: Array


@dataclasses.dataclass(frozen=True, eq=False)
class TokensBlock:
    """Tokens of one text, in order without gaps; they come before all that is said of them."""

    sequence: int
    first_token: int
    tokens: TokenizedText


Block = Union[RowBlock, WeightsBlock, LogSumExpBlock, TopWeightsBlock, LayerWeightsBlock, TokensBlock]


@dataclasses.dataclass(frozen=True, eq=False)
class SessionState:
    """A session after an action; `length` is that of the sequence that was acted on."""

    length: int
    usage: SessionUsage


@dataclasses.dataclass(frozen=True, eq=False)
class StepResult:
    """The answer to a step; `length` is the sequence's now."""

    output: Optional[Array]  # [n, E], [n, V], [1, V] or [n, H, Dv]; None with top_logits or no_output
    top_logits: Optional[TopLogits]
    tokens: Optional[TokenizedText]  # of a text
    weights: Optional[Array]  # [H, n, kv_len], as the session's options ask; so the next two
    log_sum_exp: Optional[Array]  # [H, n]
    top_weights: Optional[TopWeights]
    length: int
    usage: SessionUsage
    summary: Summary
