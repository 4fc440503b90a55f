// The keys that a layer adds behind the keys of each sequence: bias_k and add_zero_attn of
// torch.nn.MultiheadAttention.
#pragma once

#include <cstdint>
#include <vector>

#include "core/attention/attention.h"
#include "core/tensor/tensor.h"

namespace attention {

/// The extra keys of a layer and their values.
struct ExtraKeys {
  std::vector<float> key;    // [num_kv_heads * head_dim] or empty
  std::vector<float> value;  // [num_kv_heads * value_head_dim] or empty
  bool has_zero_key = false;

  int64_t count() const { return (key.empty() ? 0 : 1) + (has_zero_key ? 1 : 0); }
  /// Writes the extra rows of keys or of values to `target` [count(), width]. `row` is the key or
  /// value member.
  void Write(const std::vector<float>& row, int64_t width, const MutableMatrixView& target) const;
};

/// The options of a sequence, whose mask and bias are extended by `extra_keys` keys and do not hide
/// them. It owns the memory that it adds, and stays valid when moved.
struct ExtendedOptions {
  ExtendedOptions(const AttentionOptions& given, int64_t extra_keys, int64_t num_heads,
                  int64_t query_len, int64_t kv_len);

  AttentionOptions options;

 private:
  std::vector<float> bias_;
  std::vector<uint8_t> mask_;
};

}  // namespace attention
