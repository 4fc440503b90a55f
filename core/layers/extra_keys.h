// Keys that a layer adds behind those of each sequence: bias_k and add_zero_attn of
// torch.nn.MultiheadAttention.
#pragma once

#include <cstdint>
#include <vector>

#include "core/attention/attention.h"
#include "core/tensor/tensor.h"

namespace attention {

struct ExtraKeys {
  std::vector<float> key;    // [num_kv_heads * head_dim] or empty
  std::vector<float> value;  // [num_kv_heads * value_head_dim] or empty
  bool has_zero_key = false;

  int64_t count() const { return (key.empty() ? 0 : 1) + (has_zero_key ? 1 : 0); }
  /// Into rows [count(), ..] of keys or of values.
  void Write(const std::vector<float>& row, int64_t width, const MutableMatrixView& target) const;
};

/// Options of a sequence that has `extra_keys` more keys than the caller knows of: every row sees
/// them, whatever else holds. Owns what it adds; stays valid when moved.
struct ExtendedOptions {
  ExtendedOptions(const AttentionOptions& given, int64_t extra_keys, int64_t num_heads,
                  int64_t query_len, int64_t kv_len);

  AttentionOptions options;

 private:
  std::vector<int64_t> global_tokens_;
  std::vector<float> bias_;
  std::vector<uint8_t> mask_;
};

}  // namespace attention
