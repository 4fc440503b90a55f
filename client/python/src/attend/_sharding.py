"""Checks the arguments of a ShardedSession, and merges the answers of its pages."""

from __future__ import annotations

import reprlib
from typing import Any, Mapping, Optional, Sequence, Tuple

import numpy as np

from attend._dlpack import as_array
from attend._fields import integer, items, number
from attend._tensors import wire_dtype
from attend.errors import Internal
from attend.models import HeadsKeywords
from attend.results import Array, ShardedResult


@np.errstate(all="ignore")  # what a caller's np.seterr says is not meant for this
def merge(parts: Sequence[Tuple[Any, Any]], sinks: Optional[Array]) -> ShardedResult:
    """Weights outputs [n, H, Dv] by exp(log_sum_exp [H, n]), in double precision and the order of the parts."""
    for rows, sum_ in parts:
        if sum_.shape != rows.shape[1::-1]:  # numpy would repeat the sums of one head for all
            raise Internal(f"malformed answer: log_sum_exp: expected {list(rows.shape[1::-1])}, found {list(sum_.shape)}")
    sums = [np.asarray(sum_, np.float64) for _, sum_ in parts]
    most = np.maximum.reduce(sums)
    most = np.where(np.isneginf(most), 0.0, most)
    total = np.zeros_like(most)
    output = np.zeros(parts[0][0].shape, np.float64)
    for (rows, _), sum_ in zip(parts, sums):
        share = np.exp(sum_ - most)
        total += share
        share = share.T[:, :, None]
        output += np.where(share == 0, 0.0, share * rows)  # rows without a share may hold NaN
    log_sum_exp = np.full_like(total, -np.inf)
    np.log(total, out=log_sum_exp, where=total > 0)
    denominator = total if sinks is None else total + np.exp(sinks[:, None] - most)
    output /= np.where(denominator > 0, denominator, 1.0).T[:, :, None]
    return ShardedResult(output.astype(np.float32), (log_sum_exp + most).astype(np.float32))


def check_pages(name: str, tokens: int, page_tokens: int) -> None:
    tokens = integer(tokens, name)
    if tokens < page_tokens or tokens % page_tokens != 0:
        raise ValueError(f"{name}: expected a multiple of {page_tokens} from {page_tokens} on, found {tokens}")


def check_heads(heads: Any) -> None:
    if not isinstance(heads, Mapping):
        raise TypeError(f"heads: expected a mapping with num_heads and head_dim, found {type(heads).__name__}")
    for name in ("num_heads", "head_dim"):
        integer(heads.get(name), f"heads.{name}")


def check_options(options: Mapping[str, Any]) -> None:
    for name in ("return_weights", "weights_top_k"):
        if options.get(name):
            raise ValueError(f"{name}: expected none of a sequence on several servers, found {options.get(name)}")
    similarity = options.get("similarity")
    if similarity is not None and str(similarity).lower() != "dot_product":
        raise ValueError(f"similarity: expected dot_product, found {similarity}")


def sinks_of(sinks: Any, heads: HeadsKeywords) -> Optional[Array]:
    """Returns sinks [H], each of which float32 can hold, as the server takes them."""
    if sinks is None:
        return None
    numbers = [number(one, "sinks") for one in items(sinks, "sinks")]
    if len(numbers) != heads["num_heads"]:
        raise ValueError(f"sinks: expected one for each of {heads['num_heads']} heads, found {len(numbers)}")
    with np.errstate(all="ignore"):
        rounded = np.asarray(numbers, np.float32)
    if not np.isfinite(rounded).all():
        raise ValueError(f"sinks: expected finite float32 numbers, found {reprlib.repr(numbers)}")
    return rounded.astype(np.float64)


def rows_of(value: Any, name: str, dtype: Any) -> Array:
    """Returns floating-point rows, which can be sent as `dtype`. TypeError for others, ValueError."""
    rows = as_array(value, name)
    wire_dtype(rows, dtype, name)
    return rows


def check_shape(name: str, rows: Array, expected: Tuple[int, ...]) -> None:
    if rows.shape != expected:
        raise ValueError(f"{name}: expected {list(expected)}, found {list(rows.shape)}")
