// "Which token attends to which", as text.
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
  /// How the tokens of the rows and keys are shown beside their numbers; empty: they are not.
  std::span<const std::string> tokens = {};
};

/// `token` between quotes, on one line: control characters are escaped.
std::string QuotedToken(const std::string& token);

/// One line per query row of `weights` (FP32 [H, query_len, kv_len]) with the three keys that weigh
/// most, as percentages. A row that sees no key says so; rows beyond `max_rows` are counted, not
/// shown.
std::string AttentionTable(const Tensor& weights, const AttentionTableOptions& options);

/// One line per query row with the keys of `top` that weigh something, as percentages; of one head,
/// the first unless one is chosen. REQUIRES: as many keys as weights, [H, query_len, k].
std::string TopWeightsTable(const LargestWeights& top, const AttentionTableOptions& options);

}  // namespace attention
