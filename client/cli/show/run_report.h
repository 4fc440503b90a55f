// What `attend run` prints.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lib/attend_request.h"
#include "client/load/answer_check.h"

namespace attention {

/// When some rows of a streamed answer were there, counted from the start of the call.
struct BlockArrival {
  int64_t sequence = 0;
  int64_t first_row = 0;
  int64_t rows = 0;
  absl::Duration after;
};

/// One finished `attend run`. Borrows the request and its answer.
struct RunReport {
  std::string server;
  const AttendRequest& request;
  const AttendResult& result;
  std::vector<BlockArrival> blocks;
  std::optional<AnswerCheck> check;
  /// Of the table of attention: one head instead of the mean, and all rows instead of the first
  /// few.
  std::optional<int64_t> head;
  bool all_rows = false;
};

/// "block       sequence 0   rows 0 to 255   after 3.210 ms".
std::string ToText(const BlockArrival& block);

/// What was asked: the line above all others.
std::string ToText(const AttendRequest& request);

/// All that comes after the request and the blocks, in aligned lines; with weights in the answer, a
/// table of what attends to what per sequence. INVALID_ARGUMENT when the answer does not fit the
/// request, or has no such head.
absl::StatusOr<std::string> ToText(const RunReport& report);

/// Shapes, timings in milliseconds, batch, blocks and check; tensors are for --output.
nlohmann::json ToJson(const RunReport& report);

}  // namespace attention
