// Rates and means of a load run.
#pragma once

#include "client/load/load_result.h"

namespace attention {

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

}  // namespace attention
