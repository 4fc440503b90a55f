// The likeliest next tokens, of an answer of logits.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "client/lib/attend_request.h"
#include "client/lib/sequences.h"

namespace attention {

struct TopLogit {
  int64_t id = 0;
  float logit = 0;
};

/// The five largest logits, largest first; of equal logits, the smaller id first.
std::vector<TopLogit> TopLogits(std::span<const float> logits);

/// The likeliest tokens after the last row of each sequence, with the text of those that occur in
/// the texts: [{sequence, top: [{id, logit[, token]}]}]. Empty unless `request` asks for logits.
/// REQUIRES: `sequences` are those of the answer.
nlohmann::json NextTokensJson(const AttendRequest& request, const AttendResult& result,
                              std::span<const SequenceSpan> sequences);

/// The same as a line for each sequence.
std::string NextTokensText(const nlohmann::json& next_tokens);

}  // namespace attention
