// The output of `attend run`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/lib/attend_request.h"
#include "client/lib/sequences.h"
#include "client/load/answer_check.h"

namespace attention {

/// The arrival of some rows of a streamed answer; `after` counts from the start of the call.
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
};

/// Returns a line: "block       sequence 0   rows 0 to 255   after 3.210 ms".
std::string ToText(const BlockArrival& block);

/// Returns the first line, which describes the request.
std::string ToText(const AttendRequest& request);

/// Returns the lines after the request and the blocks, with the shapes of weights. INVALID_ARGUMENT
/// when the answer does not fit the request.
absl::StatusOr<std::string> ToText(const RunReport& report);

struct TopLogit {
  int64_t id = 0;
  float logit = 0;
};

/// Returns the five largest logits, largest first; of equal logits, the smaller id first.
std::vector<TopLogit> TopLogits(std::span<const float> logits);

/// Returns the likeliest tokens after the last row of each sequence, with the text of those that
/// occur in the texts: [{sequence, top: [{id, logit[, token]}]}]. Empty unless `request` asks for
/// logits. REQUIRES: `sequences` are those of the answer.
nlohmann::json NextTokensJson(const AttendRequest& request, const AttendResult& result,
                              std::span<const SequenceSpan> sequences);

/// Returns the tokens of NextTokensJson as text, a line for each sequence.
std::string NextTokensText(const nlohmann::json& next_tokens);

/// Returns shapes, timings in milliseconds, batch, blocks and check, without the elements of
/// tensors.
nlohmann::json ToJson(const RunReport& report);

}  // namespace attention
