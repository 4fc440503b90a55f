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

/// A line for each of the first sequences, with the likeliest tokens after its last row. A token
/// that occurs in the texts is shown beside its id. Empty unless `request` asks for logits.
/// REQUIRES: `sequences` are those of the answer.
std::string NextTokensText(const AttendRequest& request, const AttendResult& result,
                           std::span<const SequenceSpan> sequences);

/// The same for all sequences: [{sequence, top: [{id, logit[, token]}]}].
nlohmann::json NextTokensJson(const AttendRequest& request, const AttendResult& result,
                              std::span<const SequenceSpan> sequences);

}  // namespace attention
