"""Models and servers, as they describe themselves; fields are those of attention.proto, where they are explained."""

from __future__ import annotations

import dataclasses
from typing import List, Optional


@dataclasses.dataclass(frozen=True)
class ModelLimits:
    max_message_bytes: int
    max_queue_bytes: int
    max_tokens: int
    max_sequences: int
    max_score_tables: int


@dataclasses.dataclass(frozen=True)
class Layer:
    d_model: int
    d_memory: int
    d_memory_value: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_head_dim: int
    causal: bool
    is_cross: bool
    extra_keys: int


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    d_model: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    value_head_dim: int
    dtype: str
    causal: bool
    vocab_size: int
    max_positions: int
    limits: ModelLimits
    seed: Optional[int]
    version: int
    model_type: str
    num_layers: int
    has_stack: bool
    has_encoder: bool
    has_logits: bool
    num_token_types: int
    has_tokenizer: bool
    weights_dtype: str
    weights_bytes: int
    layers: List[Layer]


@dataclasses.dataclass(frozen=True)
class ModelState:
    name: str
    version: int
    phase: str  # "UNLOADED", "LOADING", "READY", "FAILED" or "UNLOADING"
    serving: bool
    error: str
    model_type: str
    weights_dtype: str
    weights_bytes: int
    read_bytes: int
    load_ns: int
    num_unused_tensors: int


@dataclasses.dataclass(frozen=True)
class Difference:
    of: str
    max_abs_error: float
    relative_l2: float
    top1_agreement: Optional[float]


@dataclasses.dataclass(frozen=True)
class Verification:
    """VerifyModelResponse of attention.proto."""

    model: str
    version: int
    weights_dtype: str
    num_tokens: int
    differences: List[Difference]


@dataclasses.dataclass(frozen=True)
class ServerStatistics:
    uptime_ns: int
    threads: int
    succeeded: int
    refused: int
    failed: int
    receive_ns: int
    queue_ns: int
    compute_ns: int
    send_ns: int
    batches: int
    batch_requests: int
    batch_tokens: int
    padding_tokens: int
    busy_ns: int
    interleaved_batches: int
    waiting_requests: int
    waiting_bytes: int
    waiting_ns: int
    running_requests: int
    sessions: int
    parked_sessions: int
    cache_bytes: int
    max_cache_bytes: int
    latency: LatencyHistogram
    models: List[ModelStatistics]
    version: str
    received_bytes: int
    sent_bytes: int
    cpu_ns: int
    throttled_ns: int
    resident_bytes: int


@dataclasses.dataclass(frozen=True)
class LatencyHistogram:
    bounds_ns: List[int]
    counts: List[int]


@dataclasses.dataclass(frozen=True)
class ModelStatistics:
    model: str
    version: int
    succeeded: int
    refused: int
    failed: int
    receive_ns: int
    queue_ns: int
    compute_ns: int
    send_ns: int
    tokens: int
    latency: LatencyHistogram


@dataclasses.dataclass(frozen=True)
class Logging:
    level: str  # "DEBUG", "INFO", "WARNING" or "ERROR"
    requests: str  # "NONE", "FAILED" or "ALL"
