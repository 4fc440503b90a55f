// What a load run found, for people and for programs.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "client/load/answer_check.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"

namespace attention {

/// How far the answers were checked.
struct LoadVerification {
  /// One answer against the reference; absent when the model cannot be reproduced.
  std::optional<AnswerCheck> reference;
  /// Sampled answers, and those of them that equal the answer to the same request alone, bit for
  /// bit.
  int64_t sampled = 0;
  int64_t identical = 0;

  bool agreed() const {
    return (!reference.has_value() || reference->agreed()) && identical == sampled;
  }
};

struct LoadReport {
  std::string model;    // empty for query_key_value
  std::string request;  // Describe() of the call
  std::string protocol = "native";
  std::string lengths;  // the mix of lengths; empty for one kind of request
  bool is_streaming = false;
  std::optional<bool> causal;
  LoadOptions options;
  LoadResult result;
  std::optional<LoadVerification> verification;
};

/// No failed request, and every checked answer agreed, and at least one answer.
bool Succeeded(const LoadReport& report);

/// Why the numbers may be the client's own rather than the server's: it was busy, or sent late;
/// empty when there is no such reason.
std::string ClientWarning(const LoadReport& report);

/// Aligned lines, at most 100 columns but for the texts of errors.
std::string ToText(const LoadReport& report);

/// The same and more: durations in milliseconds, throughput per second, the machine
/// (DescribeMachine) and the errors.
nlohmann::json ToJson(const LoadReport& report);

}  // namespace attention
