"""Checks the arguments of a ShardedSession, and merges the answers of its pages."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence, Tuple

import numpy as np

from attend._fields import integer
from attend.models import HeadsKeywords
from attend.results import Array, ShardedResult


def merge(parts: Sequence[Tuple[Any, Any]], sinks: Optional[Sequence[float]]) -> ShardedResult:
    """Weights outputs [n, H, Dv] by exp(log_sum_exp [H, n]), in double precision and the order of the parts."""
    sums = [np.asarray(sum_, np.float64) for _, sum_ in parts]
    most = np.maximum.reduce(sums)
    most = np.where(np.isneginf(most), 0.0, most)
    total = np.zeros_like(most)
    output = np.zeros(parts[0][0].shape, np.float64)
    for (rows, _), sum_ in zip(parts, sums):
        share = np.exp(sum_ - most)
        total += share
        output += share.T[:, :, None] * np.asarray(rows, np.float64)
    log_sum_exp = np.full_like(total, -np.inf)
    np.log(total, out=log_sum_exp, where=total > 0)
    denominator = total if sinks is None else total + np.exp(np.asarray(sinks, np.float64)[:, None] - most)
    output /= np.where(denominator > 0, denominator, 1.0).T[:, :, None]
    return ShardedResult(output.astype(np.float32), (log_sum_exp + most).astype(np.float32))


def check_pages(name: str, tokens: int, page_tokens: int) -> None:
    tokens = integer(tokens, name)
    if tokens < page_tokens or tokens % page_tokens != 0:
        raise ValueError(f"{name}: expected a multiple of {page_tokens} from {page_tokens} on, found {tokens}")


def check_options(options: Mapping[str, Any], heads: HeadsKeywords) -> None:
    for name in ("return_weights", "weights_top_k"):
        if options.get(name):
            raise ValueError(f"{name}: expected none of a sequence on several servers, found {options.get(name)}")
    if options.get("similarity", "dot_product") != "dot_product":
        raise ValueError(f"similarity: expected dot_product, found {options.get('similarity')}")
    sinks = options.get("sinks")
    if sinks is not None and len(sinks) != heads["num_heads"]:
        raise ValueError(f"sinks: expected one for each of {heads['num_heads']} heads, found {len(sinks)}")


def check_shape(name: str, rows: Array, expected: Tuple[int, ...]) -> None:
    if rows.shape != expected:
        raise ValueError(f"{name}: expected {list(expected)}, found {list(rows.shape)}")
