"""Classes of answers. Their fields are those of the messages of the same names in attention.proto.

B batch size, S sequence length, E d_model, H query heads, Dv value width, T total tokens of a packed batch, N number of
sequences, V vocabulary size.
"""

from __future__ import annotations

import dataclasses
from typing import Any, List, NamedTuple, Optional, Union

import numpy as np

from attend.models import SessionUsage, Summary, TokenizedText, TopLogits

Array = np.ndarray[Any, np.dtype[Any]]
"""A numpy array. Its dtype is ml_dtypes.bfloat16 if the rows of the request were; torch.from_dlpack takes all others without a
copy."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _Shown:
    """Shows arrays by dtype and shape, as float32[14, 64]: printed whole they fill pages."""

    def __repr__(self) -> str:
        names = [field.name for field in dataclasses.fields(self) if not field.name.startswith("_")]
        return f"{type(self).__name__}({', '.join(f'{name}={_shown(getattr(self, name))}' for name in names)})"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TopWeights(_Shown):
    """The k largest weights of each row of one sequence, in descending order. Both arrays are [H, query_len, k]; the key is -1 where
    a row has fewer keys."""

    weights: Array
    keys: Array


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LayerWeights(_Shown):
    """The attention weights of one layer and sequence in a run of the whole stack: [chosen heads, query_len, kv_len]."""

    layer: int
    sequence: int
    weights: Array


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AttendResult(_Shown):
    """The answer to a request.

    `output` has the form of the input: [B, S, E] or [T, E] ([T, E] for a list of sequences, token ids and texts); [N, E], [T, V] or
    [N, V] as `model_output=` says; [B, Sq, H, Dv] or [T, H, Dv] for query, key and value. Its dtype is that of the input's rows
    (float32 for float64), and float32 for token ids and texts.
    """

    output: Array
    lengths: List[int]  # the number of rows of each sequence
    summary: Summary
    weights: List[Array]  # with return_weights: float32 [H, query_len, kv_len] for each sequence
    log_sum_exp: List[Array]  # with return_log_sum_exp: float32 [H, query_len] for each sequence
    top_weights: List[TopWeights]  # with weights_top_k: one for each sequence
    tokens: List[TokenizedText]  # one for each text
    layer_weights: List[LayerWeights]  # with weights_choice: for each sequence its layers, in order
    _form: str = "packed"  # or "padded", "pooled"

    def split(self) -> List[Array]:
        """Returns the output of each sequence without padding: views of `output`, [n, ...], or [...] if it is pooled."""
        if self._form == "pooled":
            return list(self.output)
        if self._form == "padded":
            return [rows[:length] for rows, length in zip(self.output, self.lengths)]
        ends = np.cumsum(self.lengths, dtype=np.int64)
        return [self.output[end - length : end] for end, length in zip(ends, self.lengths)]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class RowBlock(_Shown):
    """Output rows of one sequence: [rows, E], [rows, V] or [rows, H, Dv]. The rows of a sequence come in order, without gaps."""

    sequence: int
    first_row: int
    rows: Array


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class _ScoresBlock(_Shown):
    sequence: int
    head: int
    first_row: int
    rows: Array


class WeightsBlock(_ScoresBlock):
    """Rows of one head's weights: [rows, kv_len]."""


class LogSumExpBlock(_ScoresBlock):
    """Rows of one head's log-sum-exp: [rows]."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TopWeightsBlock(_ScoresBlock):
    """Rows of one head's largest weights, and their keys: both [rows, k]."""

    keys: Array


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LayerWeightsBlock(_ScoresBlock):
    """Rows of one head's weights in one layer: [rows, kv_len]."""

    layer: int


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TokensBlock(_Shown):
    """Tokens of one text, in order, without gaps. They come before all other blocks."""

    sequence: int
    first_token: int
    tokens: TokenizedText


Block = Union[RowBlock, WeightsBlock, LogSumExpBlock, TopWeightsBlock, LayerWeightsBlock, TokensBlock]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SessionState(_Shown):
    """A session after an action. `length` is the number of tokens of the action's sequence."""

    length: int
    usage: SessionUsage


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class StepResult(_Shown):
    """The answer to a step. `length` is the number of tokens of its sequence after the step."""

    output: Optional[Array]  # [n, E], [n, V], [1, V] or [n, H, Dv]; None with top_logits or no_output
    top_logits: Optional[TopLogits]
    tokens: Optional[TokenizedText]  # of a step with text=
    weights: Optional[Array]  # [H, n, kv_len], with return_weights
    log_sum_exp: Optional[Array]  # [H, n], with return_log_sum_exp
    top_weights: Optional[TopWeights]  # with weights_top_k
    length: int
    usage: SessionUsage
    summary: Summary


@dataclasses.dataclass(frozen=True)
class ShardRange:
    """Tokens [first, first + count) of the sequence, and the server that holds or held them."""

    first: int
    count: int
    server: str


class ShardedResult(NamedTuple):
    """The answer to a step of a ShardedSession, over all keys."""

    output: Array  # float32 [n, H, Dv]
    log_sum_exp: Array  # float32 [H, n]

    def __repr__(self) -> str:
        return f"ShardedResult(output={_shown(self.output)}, log_sum_exp={_shown(self.log_sum_exp)})"
