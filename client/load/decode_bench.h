// One measured and checked run of sessions that decode.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/lib/attention_client.h"
#include "client/load/decode_load.h"
#include "client/load/decode_plan.h"
#include "client/load/report.h"

namespace attention {

struct DecodeReport {
  std::string model;    // empty for attention without weights
  std::string request;  // DecodePlan::Describe()
  DecodeOptions decode;
  LoadOptions options;
  DecodeLoadResult result;
  /// `reference`: of all answers of a session that was alone, taken as one; absent also for logits,
  /// and where keys and values were rounded.
  std::optional<LoadVerification> verification;
};

/// Runs one session alone, checks its answers against the reference (if options.num_samples > 0,
/// and the model can be reproduced), runs the load, and compares sampled answers bit for bit to
/// those of the session that was alone. Errors are those of that session and of a malformed answer;
/// what fails under load is part of the report.
absl::StatusOr<DecodeReport> RunDecodeBench(AttentionClient& client, const DecodePlan& plan,
                                            const LoadOptions& options);

/// As the functions of report.h.
bool Succeeded(const DecodeReport& report);
std::string ToText(const DecodeReport& report);
nlohmann::json ToJson(const DecodeReport& report);

}  // namespace attention
