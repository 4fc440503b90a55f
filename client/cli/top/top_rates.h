// The work of a server between two readings of its statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Times of the requests that were answered between two readings; absent if there were none.
struct AnswerTimes {
  /// Mean times.
  std::optional<double> receive_ms, queue_ms, compute_ms, send_ms;

  /// Mean from arrival until the answer was sent.
  std::optional<double> total_ms() const;
};

struct ModelRates {
  /// Empty: attention without a model, and requests that ended before their model was known.
  std::string name;
  int64_t version = 0;
  double answered_per_s = 0, refused_per_s = 0, failed_per_s = 0;
  double tokens_per_s = 0;
  AnswerTimes times;
  /// Answers since the start of the server.
  int64_t answered = 0;
};

struct TopRates {
  double interval_s = 0;
  double answered_per_s = 0, refused_per_s = 0, failed_per_s = 0;
  AnswerTimes times;
  double batches_per_s = 0, tokens_per_s = 0;
  /// The means of a batch.
  std::optional<double> batch_requests, batch_tokens;
  /// The share of the time, 0 to 1, in which a batch was computed.
  double busy_share = 0;
  /// Cores that the process used, and that its control group withheld.
  double cores = 0, throttled_cores = 0;
  double received_bytes_per_s = 0, sent_bytes_per_s = 0;
  /// In the order of the later statistics.
  std::vector<ModelRates> models;
};

/// The rates between two readings, by the clock of the server; if it was restarted in between,
/// since its start.
TopRates RatesBetween(const v1::ServerStatistics& before, const v1::ServerStatistics& after);

}  // namespace attention
