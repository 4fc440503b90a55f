// The results of a benchmark at one or several levels of load.
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

/// The checks of answers, and their results.
struct LoadVerification {
  /// The check of one answer against the reference; absent if the model cannot be reproduced. For
  /// sessions it checks all answers of a session that ran alone, joined; it is absent also for
  /// logits and for rounded keys and values.
  std::optional<AnswerCheck> reference;
  /// The number of sampled answers, and of those that equal, bit for bit, the answer that the same
  /// request gets alone.
  int64_t sampled = 0;
  int64_t identical = 0;
  /// The number of further samples that could not be compared, and why the first could not: the
  /// server was gone when it was asked again, or the sample is malformed.
  int64_t unchecked = 0;
  std::string unchecked_text = {};
  /// The number of samples that were asked for; fewer if there were not so many answers to requests
  /// that were sent within the window.
  int64_t wanted = 0;

  bool agreed() const {
    return (!reference.has_value() || reference->agreed()) && identical == sampled &&
           unchecked == 0;
  }
};

/// The requests; the same at all levels.
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
  /// The stability of the trials if the options have a rule, else of ten equal parts of the window.
  Stability stability;
  /// One for each of BenchReport::slo.
  std::vector<SloCheck> slo;
};

/// The result of a range or a search with targets.
struct SearchVerdict {
  /// The highest level that met the targets, in requests a second or in flight; absent if none did.
  std::optional<double> highest_met;
  /// The lowest level that missed one; absent if none did.
  std::optional<double> lowest_missed;
};

struct BenchReport {
  BenchSubject subject;
  absl::Time started;
  std::string command;  // what was typed, without secrets; may be empty
  std::map<std::string, std::string> tags;
  nlohmann::json machine;  // DescribeMachine() in bench.cc
  std::vector<SloTarget> slo;
  /// The levels in the order in which they ran; at least one.
  std::vector<BenchLevel> levels;
  /// Present for a range or a search with targets.
  std::optional<SearchVerdict> search;
};

/// Returns the level of a load: its rate, or its requests in flight.
double LevelValue(const LoadOptions& options);

/// Returns whether a closed loop of requests cannot fill its concurrency: there are fewer requests.
bool HasUnusedLanes(const LoadOptions& options);

/// Returns the level as text: "100", or of a ramp "10 to 200".
std::string LevelText(const LoadOptions& options);

/// Returns whether the level was measured to its end, answers came from each server, all checked
/// ones agreed, no request failed (unless a target allows some failures), and the load became
/// stable if that is required.
bool Succeeded(const BenchLevel& level);

/// What a server did with the requests of an open loop in the second half of the time in which they
/// were due; a queue that the first half only fills is no fault.
struct KeepingUp {
  double due_per_s = 0.0;
  double answers_per_s = 0.0;
  /// False if requests were waiting at the end, and answers and failures fell short of what was due
  /// by more than 5% and more than three standard deviations of a random number of requests.
  bool is_kept = true;
};

/// Returns whether the server kept up with the rate; absent for a closed loop and for a recorded
/// schedule, which may be a burst.
std::optional<KeepingUp> KeepingUpOf(const BenchLevel& level);

/// Returns the number of servers that --server names by commas.
int64_t NumServersNamed(const BenchLevel& level);
/// Returns whether fewer servers answered within the window than are named, although there were
/// as many answers.
bool MissesServers(const BenchLevel& level);

/// Returns whether the load was stopped from outside before its end.
bool WasStopped(const BenchReport& report);

/// Returns whether the level succeeded and all targets were met. An open loop with targets misses
/// if the server did not keep up.
bool MeetsTargets(const BenchLevel& level);

/// How a benchmark ended.
enum class BenchVerdict {
  kPassed,
  kMissed,  // nothing was wrong but that a target was missed
  kFailed,
};

/// Returns kPassed if every level met its targets; for a search or a range with targets, if one
/// level did, all checked answers of all levels agreed, and none was stopped from outside. Failures
/// of calls make it kFailed unless a target of errors judges them.
BenchVerdict VerdictOf(const BenchReport& report);

/// Returns whether the verdict is kPassed.
bool Succeeded(const BenchReport& report);

/// Returns why the client may have limited the results: it was busy, waited for a core, or sent
/// late; empty if there is no such reason.
std::string ClientWarning(const BenchLevel& level);

}  // namespace attention
