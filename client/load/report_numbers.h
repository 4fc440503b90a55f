// Numbers that reports of load have in common.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "client/load/histogram.h"
#include "client/load/load_result.h"

namespace attention {

inline double Milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

/// 0 when there is nothing to divide by.
inline double Share(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

/// "mean 1.250  p50 1.199  p90 ...  p99.9 ...  max 9.811 ms".
std::string LatencyText(const Histogram& nanoseconds);

/// {"mean", "min", "max", "p50", "p90", "p95", "p99", "p99.9"} in milliseconds.
nlohmann::json LatencyJson(const Histogram& nanoseconds);

/// Over the window, or means over the answers.
struct LoadRates {
  double requests_per_s = 0.0;  // OK answers
  double tokens_per_s = 0.0;
  double gigabytes_per_s = 0.0;  // requests and answers, 1e9 bytes
  double queue_ms = 0.0;
  double compute_ms = 0.0;
  double requests_per_batch = 0.0;
  // Of an open loop.
  double offered_per_s = 0.0;  // due
  double sent_per_s = 0.0;
};
LoadRates RatesOf(const LoadResult& result);

/// Failed requests of the whole run.
int64_t NumFailures(const LoadResult& result);

}  // namespace attention
