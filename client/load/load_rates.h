// Rates and means of a load run.
#pragma once

#include "client/load/load_result.h"

namespace attention {

inline double Milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

/// 0 when there is nothing to divide by.
inline double Share(double part, double whole) { return whole == 0.0 ? 0.0 : part / whole; }

/// Over the window, or means over the answers; 0 of an empty window.
struct LoadRates {
  double requests_per_s = 0.0;  // OK answers
  double tokens_per_s = 0.0;
  double gigabytes_per_s = 0.0;  // requests and answers, 1e9 bytes
  double prefill_tokens_per_s = 0.0;
  double requests_per_batch = 0.0;
  // Of an open loop.
  double offered_per_s = 0.0;  // due
  double sent_per_s = 0.0;
};
LoadRates RatesOf(const LoadResult& result);

}  // namespace attention
