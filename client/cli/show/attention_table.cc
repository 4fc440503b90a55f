#include "client/cli/show/attention_table.h"

#include <algorithm>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plot/token_text.h"

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

// An answer may have keys beyond the rows.
std::string Label(int64_t row, std::span<const std::string> tokens) {
  return row < 0 || row >= std::ssize(tokens) ? absl::StrCat(row)
                                              : absl::StrCat(row, " ", tokens[row]);
}

int64_t WidestLabel(int64_t rows, std::span<const std::string> tokens) {
  int64_t width = rows > 0 ? ColumnsOf(Label(rows - 1, tokens)) : 0;
  for (int64_t i = 0; i < std::min(rows, std::ssize(tokens)); ++i) {
    width = std::max(width, ColumnsOf(Label(i, tokens)));
  }
  return width;
}

struct WeighedKey {
  int64_t key = 0;
  double weight = 0;
};

std::vector<WeighedKey> HeaviestOf(const std::vector<double>& weights) {
  std::vector<WeighedKey> keys;
  for (int64_t key = 0; key < std::ssize(weights); ++key) {
    keys.push_back({key, weights[key]});
  }
  const int64_t shown = std::min<int64_t>(kKeysPerRow, std::ssize(keys));
  // Equal weights keep key order.
  std::partial_sort(keys.begin(), keys.begin() + shown, keys.end(),
                    [](const WeighedKey& a, const WeighedKey& b) {
                      return a.weight != b.weight ? a.weight > b.weight : a.key < b.key;
                    });
  keys.resize(shown);
  return keys;
}

/// One line per row, with the keys that `keys_of` returns for it, heaviest first.
template <typename KeysOf>
std::string Table(int64_t query_len, int64_t num_keys, const AttentionTableOptions& options,
                  const KeysOf& keys_of) {
  const int64_t shown = std::min(query_len, options.max_rows);
  const int64_t row_width = WidestLabel(shown, options.tokens);
  const int64_t key_width = WidestLabel(num_keys, options.tokens);
  std::string text;
  for (int64_t row = 0; row < shown; ++row) {
    std::string line;
    for (const auto& [key, weight] : keys_of(row)) {
      if (weight > 0.0) {
        absl::StrAppendFormat(&line, "   %s %5.1f%%",
                              PadLeft(Label(key, options.tokens), key_width), 100.0 * weight);
      }
    }
    absl::StrAppendFormat(&text, "  %s  ->%s\n", PadLeft(Label(row, options.tokens), row_width),
                          line.empty() ? "   no key" : line);
  }
  if (shown < query_len) {
    absl::StrAppend(&text, "  ... ", query_len - shown, " more rows (--all shows them)\n");
  }
  return text;
}

}  // namespace

std::string QuotedToken(const std::string& token) {
  std::string text = "\"";
  for (const char c : token) {
    const bool is_control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    absl::StrAppend(&text, is_control ? absl::CEscape(std::string(1, c)) : std::string(1, c));
  }
  return text + "\"";
}

std::string AttentionTable(const Tensor& weights, const AttentionTableOptions& options) {
  return Table(weights.shape()[1], weights.shape()[2], options,
               [&](int64_t row) { return HeaviestOf(RowOf(weights, row, options.head)); });
}

std::string TopWeightsTable(const LargestWeights& top, const AttentionTableOptions& options) {
  const int64_t query_len = top.weights.shape()[1], k = top.weights.shape()[2];
  const int64_t num_keys =
      top.keys.empty() ? 0 : *std::max_element(top.keys.begin(), top.keys.end()) + 1;
  return Table(query_len, num_keys, options, [&](int64_t row) {
    std::vector<WeighedKey> keys;
    const int64_t first = (options.head.value_or(0) * query_len + row) * k;
    for (int64_t i = first; i < first + k; ++i) {
      keys.push_back({top.keys[i], top.weights.as<float>()[i]});
    }
    return keys;
  });
}

}  // namespace attention
