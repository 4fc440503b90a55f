#include "core/layers/extra_keys.h"

#include <algorithm>

namespace attention {
namespace {

/// Returns the scores with `extra` more columns of `filler`, dense; nothing without scores.
template <typename T>
std::vector<T> Extend(ScoreView<T>& scores, int64_t extra, T filler, const Shape& shape) {
  if (scores.data == nullptr) {
    return {};
  }
  const int64_t num_heads = scores.head_stride == 0 ? 1 : shape[0];
  const int64_t query_len = shape[1];
  const int64_t kv_len = shape[2];
  const int64_t columns = kv_len + extra;
  std::vector<T> extended(num_heads * query_len * columns, filler);
  for (int64_t head = 0; head < num_heads; ++head) {
    for (int64_t row = 0; row < query_len; ++row) {
      std::copy_n(scores.Row(head, row), kv_len, &extended[(head * query_len + row) * columns]);
    }
  }
  scores = {extended.data(), num_heads == 1 ? 0 : query_len * columns, columns};
  return extended;
}

}  // namespace

void ExtraKeys::Write(const std::vector<float>& row, int64_t width,
                      const MutableMatrixView& target) const {
  const std::vector<float> zeros(width);
  int64_t at = 0;
  const auto write = [&](const std::vector<float>& values) {
    Convert(Dtype::kF32, values.data(), target.dtype,
            ElementAt(target.data, target.dtype, at++ * target.row_stride), width);
  };
  if (!row.empty()) {
    write(row);
  }
  if (has_zero_key) {
    write(zeros);
  }
}

ExtendedOptions::ExtendedOptions(const AttentionOptions& given, int64_t extra_keys,
                                 int64_t num_heads, int64_t query_len, int64_t kv_len)
    : options(given) {
  if (extra_keys == 0) {
    return;
  }
  options.query_offset = given.query_offset.value_or(kv_len - query_len);
  bias_ = Extend(options.bias, extra_keys, 0.0f, {num_heads, query_len, kv_len});
  mask_ = Extend(options.mask, extra_keys, uint8_t{1}, {num_heads, query_len, kv_len});
}

}  // namespace attention
