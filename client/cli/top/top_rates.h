// What a server did between two looks at its statistics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/attention/v1/attention.pb.h"

namespace attention {

/// Of what was answered between two looks; empty when nothing was.
struct AnswerTimes {
  /// Means.
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
  /// Since the start.
  int64_t answered = 0;
};

struct TopRates {
  double interval_s = 0;
  double answered_per_s = 0, refused_per_s = 0, failed_per_s = 0;
  AnswerTimes times;
  double batches_per_s = 0, tokens_per_s = 0;
  /// Means of what was computed together.
  std::optional<double> batch_requests, batch_tokens;
  /// Of the time, 0 to 1: some batch was computed.
  double busy_share = 0;
  /// Cores that the process had, and would have had but for its control group.
  double cores = 0, throttled_cores = 0;
  double received_bytes_per_s = 0, sent_bytes_per_s = 0;
  /// In the order of the later statistics.
  std::vector<ModelRates> models;
};

/// By the server's own clock. A server that has started anew in between counts from its start.
TopRates RatesBetween(const v1::ServerStatistics& before, const v1::ServerStatistics& after);

}  // namespace attention
