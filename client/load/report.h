// What a load run found, for people and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "client/load/answer_check.h"
#include "client/load/load_generator.h"

namespace attention {

/// How far the answers were checked.
struct LoadVerification {
  /// The first answer against the reference; absent when the model cannot be reproduced.
  std::optional<AnswerCheck> reference;
  /// Sampled answers, and those of them that equal the first bit for bit.
  int64_t sampled = 0;
  int64_t identical = 0;

  bool agreed() const {
    return (!reference.has_value() || reference->agreed()) && identical == sampled;
  }
};

struct LoadReport {
  std::string model;    // empty for query_key_value
  std::string request;  // Describe() of the call
  bool is_streaming = false;
  std::optional<bool> causal;
  int64_t tokens_per_request = 0;
  int64_t request_bytes = 0;
  LoadOptions options;
  LoadResult result;
  std::optional<LoadVerification> verification;
};

/// No failed request, and every checked answer agreed, and at least one answer.
bool Succeeded(const LoadReport& report);

/// Aligned lines, at most 100 columns.
std::string ToText(const LoadReport& report);

/// The same and more: durations in milliseconds, throughput per second, the machine
/// (DescribeMachine) and the errors.
nlohmann::json ToJson(const LoadReport& report);

}  // namespace attention
