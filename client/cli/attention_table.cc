#include "client/cli/attention_table.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace attention {
namespace {

constexpr int64_t kKeysPerRow = 3;

/// One query row's weights [kv_len], of one head or averaged over all.
std::vector<double> RowOf(const Tensor& weights, int64_t row, std::optional<int64_t> head) {
  const int64_t num_heads = weights.shape()[0], query_len = weights.shape()[1],
                kv_len = weights.shape()[2];
  const int64_t first_head = head.value_or(0);
  const int64_t last_head = head.has_value() ? first_head + 1 : num_heads;
  std::vector<double> sums(kv_len, 0.0);
  for (int64_t h = first_head; h < last_head; ++h) {
    const float* values = weights.as<float>() + (h * query_len + row) * kv_len;
    for (int64_t j = 0; j < kv_len; ++j) {
      sums[j] += values[j] / static_cast<double>(last_head - first_head);
    }
  }
  return sums;
}

std::string Label(int64_t row, std::span<const int32_t> tokens) {
  return tokens.empty() ? absl::StrCat(row) : absl::StrCat(row, " (", tokens[row], ")");
}

size_t WidestLabel(int64_t rows, std::span<const int32_t> tokens) {
  size_t width = 0;
  for (int64_t i = 0; i < rows; ++i) {
    width = std::max(width, Label(i, tokens).size());
  }
  return width;
}

std::string TopKeys(const std::vector<double>& weights, int width,
                    std::span<const int32_t> tokens) {
  std::vector<int64_t> keys(weights.size());
  std::iota(keys.begin(), keys.end(), 0);
  const int64_t shown = std::min<int64_t>(kKeysPerRow, std::ssize(keys));
  // Equal weights keep key order.
  std::partial_sort(keys.begin(), keys.begin() + shown, keys.end(), [&](int64_t a, int64_t b) {
    return weights[a] != weights[b] ? weights[a] > weights[b] : a < b;
  });
  std::string text;
  for (int64_t i = 0; i < shown && weights[keys[i]] > 0.0; ++i) {
    absl::StrAppendFormat(&text, "   %*s %5.1f%%", width, Label(keys[i], tokens),
                          100.0 * weights[keys[i]]);
  }
  return text.empty() ? "   no key" : text;
}

}  // namespace

std::string AttentionTable(const Tensor& weights, const AttentionTableOptions& options) {
  const int64_t query_len = weights.shape()[1];
  const int64_t shown = std::min(query_len, options.max_rows);
  const int row_width = static_cast<int>(WidestLabel(shown, options.tokens));
  const int key_width = static_cast<int>(WidestLabel(weights.shape()[2], options.tokens));
  std::string text;
  for (int64_t row = 0; row < shown; ++row) {
    absl::StrAppendFormat(&text, "  %*s  ->%s\n", row_width, Label(row, options.tokens),
                          TopKeys(RowOf(weights, row, options.head), key_width, options.tokens));
  }
  if (shown < query_len) {
    absl::StrAppend(&text, "  ... ", query_len - shown, " more rows (--all shows them)\n");
  }
  return text;
}

}  // namespace attention
