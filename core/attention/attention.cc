#include "core/attention/attention.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/attention/resolve.h"
#include "core/kernels/flash_attention.h"
#include "core/kernels/onednn/isa.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

absl::Status Mismatch(int64_t sequence, const char* what, int64_t expected, int64_t found) {
  return absl::InvalidArgumentError(
      absl::StrCat("sequence ", sequence, ": ", what, ": expected ", expected, ", found ", found));
}

absl::Status ValidateExtents(int64_t i, const AttentionSequence& s) {
  if (s.key.num_heads <= 0 || s.query.num_heads % s.key.num_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", i, ": query num_heads: expected a multiple of key num_heads ",
                     s.key.num_heads, ", found ", s.query.num_heads));
  }
  if (s.value.num_heads != s.key.num_heads) {
    return Mismatch(i, "value num_heads", s.key.num_heads, s.value.num_heads);
  }
  if (s.key.head_dim != s.query.head_dim) {
    return Mismatch(i, "key head_dim", s.query.head_dim, s.key.head_dim);
  }
  if (s.value.tokens != s.key.tokens) {
    return Mismatch(i, "value tokens", s.key.tokens, s.value.tokens);
  }
  if (s.output.tokens != s.query.tokens) {
    return Mismatch(i, "output tokens", s.query.tokens, s.output.tokens);
  }
  if (s.output.num_heads != s.query.num_heads) {
    return Mismatch(i, "output num_heads", s.query.num_heads, s.output.num_heads);
  }
  if (s.output.head_dim != s.value.head_dim) {
    return Mismatch(i, "output head_dim", s.value.head_dim, s.output.head_dim);
  }
  return absl::OkStatus();
}

absl::Status ValidateAlike(int64_t i, const AttentionSequence& s, const AttentionSequence& first) {
  if (s.query.num_heads != first.query.num_heads) {
    return Mismatch(i, "query num_heads", first.query.num_heads, s.query.num_heads);
  }
  if (s.key.num_heads != first.key.num_heads) {
    return Mismatch(i, "key num_heads", first.key.num_heads, s.key.num_heads);
  }
  if (s.query.head_dim != first.query.head_dim) {
    return Mismatch(i, "query head_dim", first.query.head_dim, s.query.head_dim);
  }
  if (s.value.head_dim != first.value.head_dim) {
    return Mismatch(i, "value head_dim", first.value.head_dim, s.value.head_dim);
  }
  for (const HeadsView* view : {&s.query, &s.key, &s.value}) {
    if (view->dtype != first.query.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("sequence ", i, ": dtype: expected ", std::string(Name(first.query.dtype)),
                       " of query, key and value alike, found ", std::string(Name(view->dtype))));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateRange(int64_t i, const char* what, int64_t value) {
  if (value < 1 || value > kMaxHeadDim) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", i, ": ", what, ": expected 1 to ",
                                                   kMaxHeadDim, ", found ", value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(std::span<const AttentionSequence> sequences) {
  for (int64_t i = 0; i < std::ssize(sequences); ++i) {
    const AttentionSequence& s = sequences[i];
    RETURN_IF_ERROR(ValidateExtents(i, s));
    RETURN_IF_ERROR(ValidateAlike(i, s, sequences.front()));
    RETURN_IF_ERROR(ValidateRange(i, "head_dim", s.query.head_dim));
    RETURN_IF_ERROR(ValidateRange(i, "value head_dim", s.value.head_dim));
    if (s.options.scale.has_value() && !std::isfinite(*s.options.scale)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sequence ", i, ": scale: expected a finite number, found ", *s.options.scale));
    }
  }
  return absl::OkStatus();
}

FlashSequence Resolve(const AttentionSequence& s) {
  const AttentionOptions& o = s.options;
  FlashSequence result = {.query = s.query, .key = s.key, .value = s.value, .output = s.output};
  result.visibility = {.kv_len = s.key.tokens,
                       .query_offset = o.query_offset.value_or(s.key.tokens - s.query.tokens),
                       .causal = o.causal,
                       .window = o.window,
                       .window_right = o.window_right,
                       .prefix = o.prefix,
                       .global_tokens = o.global_tokens,
                       .mask = o.mask};
  result.similarity = o.similarity;
  result.scale = o.scale.value_or(1.0f / std::sqrt(static_cast<float>(s.query.head_dim)));
  result.bandwidth = o.bandwidth;
  result.softcap = o.softcap;
  result.alibi_slopes = o.alibi_slopes;
  result.bias = o.bias;
  result.sinks = o.sinks;
  result.query_norm = o.query_norm;
  result.key_norm = o.key_norm;
  result.rotary = o.rotary;
  result.weights = s.weights;
  result.top_k = s.top_weights.k;
  result.top_weights = s.top_weights.weights;
  result.top_keys = s.top_weights.keys;
  result.log_sum_exp = s.log_sum_exp;
  return result;
}

bool Announce(const Stage& stage, const RowsCallback& on_rows) {
  for (const RowRange& rows : stage) {
    if (!on_rows(rows)) {
      return false;
    }
  }
  return true;
}

absl::Status ScaledDotProductAttention(std::span<const AttentionSequence> sequences,
                                       Workspace& workspace, const RowsCallback& on_rows,
                                       int64_t block_rows) {
  RETURN_IF_ERROR(Validate(sequences));
  if (sequences.empty()) {
    return absl::OkStatus();
  }
  std::vector<FlashSequence> resolved;
  std::vector<int64_t> query_lens;
  std::vector<RowRange> all_keys;
  for (const AttentionSequence& s : sequences) {
    all_keys.push_back({std::ssize(all_keys), 0, s.key.tokens});
    query_lens.push_back(s.query.tokens);
    resolved.push_back(Resolve(s));
  }
  FlashAttention flash(std::move(resolved), ComputeDtype(sequences.front().query.dtype), workspace);
  if (!on_rows) {
    flash.PackAndAttend();
    return absl::OkStatus();
  }
  flash.PackKeys(all_keys);
  for (const Stage& stage : CutIntoStages(query_lens, BlockRows(block_rows))) {
    flash.Attend(stage);
    if (!Announce(stage, on_rows)) {
      return absl::CancelledError("cancelled between row blocks");
    }
  }
  return absl::OkStatus();
}

}  // namespace attention
