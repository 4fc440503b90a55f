// What a benchmark asked, and what it found, at one level of load or at several.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/load/answer_check.h"
#include "client/load/decode_plan.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"
#include "client/load/slo.h"
#include "client/load/stability.h"

namespace attention {

/// How far the answers were checked.
struct LoadVerification {
  /// One answer against the reference; absent when the model cannot be reproduced. Of sessions: all
  /// answers of one that was alone, taken as one; absent also for logits, and where keys and values
  /// were rounded.
  std::optional<AnswerCheck> reference;
  /// Sampled answers, and those of them that equal the answer to the same request alone, bit for
  /// bit.
  int64_t sampled = 0;
  int64_t identical = 0;

  bool agreed() const {
    return (!reference.has_value() || reference->agreed()) && identical == sampled;
  }
};

/// What was asked; the same at all levels.
struct BenchSubject {
  std::string model;    // empty for query_key_value
  std::string request;  // Describe() of the call, or of the DecodePlan
  std::string protocol = "native";
  std::string lengths;  // the mix of lengths; empty for one kind of request
  bool is_streaming = false;
  std::optional<bool> causal;
  std::optional<DecodeOptions> decode;  // sessions
};

/// One point of a range, or one probe of a search.
struct BenchLevel {
  LoadOptions options;
  LoadResult result;
  std::optional<LoadVerification> verification;
  /// Of the trials when the options have a rule, else of eight equal parts of the window.
  Stability stability;
  /// One for each of BenchReport::slo.
  std::vector<SloCheck> slo;
};

/// The highest level that kept to what it was to keep to.
struct SearchVerdict {
  /// Requests a second, or requests under way; absent when not even the lowest level met it.
  std::optional<double> highest_met;
  /// The lowest that missed it; absent when none did.
  std::optional<double> lowest_missed;
};

struct BenchReport {
  BenchSubject subject;
  absl::Time started;
  std::string command;  // what was typed, without secrets; may be empty
  std::map<std::string, std::string> tags;
  nlohmann::json machine;  // DescribeMachine()
  std::vector<SloTarget> slo;
  /// In the order in which they ran; at least one.
  std::vector<BenchLevel> levels;
  /// Of a range or a search with targets.
  std::optional<SearchVerdict> search;
};

/// What of the options a level is one of: the requests under way, or the rate.
double LevelValue(const LoadOptions& options);

/// Answers came, all that were checked agreed, no request failed (unless a target says how many
/// may), and the load settled where that is required.
bool Succeeded(const BenchLevel& level);

/// Succeeded, and all targets were met.
bool MeetsTargets(const BenchLevel& level);

/// Every level met its targets; of a search or a range with targets: one did, and all checked
/// answers of all levels agreed.
bool Succeeded(const BenchReport& report);

/// Why the numbers may be the client's own rather than the server's: it was busy, or sent late;
/// empty when there is no such reason.
std::string ClientWarning(const BenchLevel& level);

}  // namespace attention
