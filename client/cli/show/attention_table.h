// Tables of which token attends to which.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/lib/attend_request.h"
#include "core/tensor/tensor.h"

namespace attention {

struct AttentionTableOptions {
  /// One head, or the mean over all. REQUIRES: less than the number of heads.
  std::optional<int64_t> head = std::nullopt;
  int64_t max_rows = 16;
  /// Labels of tokens, shown beside the numbers of rows and keys; may be empty.
  std::span<const std::string> tokens = {};
};

/// `token` between quotes, on one line: control characters are escaped.
std::string QuotedToken(const std::string& token);

/// One line per query row of `weights` (FP32 [H, query_len, kv_len]) with the three keys of the
/// largest weights, as percentages, or "no key". Rows beyond `max_rows` are counted, not shown.
std::string AttentionTable(const Tensor& weights, const AttentionTableOptions& options);

/// One line per query row with the keys of `top` whose weight is above 0, as percentages, for one
/// head; by default the first. REQUIRES: as many keys as weights, [H, query_len, k].
std::string TopWeightsTable(const LargestWeights& top, const AttentionTableOptions& options);

}  // namespace attention
