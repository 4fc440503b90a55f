#include "client/load/load_result.h"

namespace attention {

int64_t NumFailures(const Failures& failures) {
  int64_t total = 0;
  for (const auto& [code, failure] : failures) {
    total += failure.count;
  }
  return total;
}

int64_t NumFailuresInWindow(const Failures& failures) {
  int64_t total = 0;
  for (const auto& [code, failure] : failures) {
    total += failure.in_window;
  }
  return total;
}

LoadRates RatesOf(const LoadResult& result) {
  const double window_s = absl::ToDoubleSeconds(result.window);
  const auto per_s = [window_s](int64_t count) {
    return Share(static_cast<double>(count), window_s);
  };
  LoadRates rates{.requests_per_s = per_s(result.answers),
                  .tokens_per_s = per_s(result.tokens),
                  .gigabytes_per_s = per_s(result.request_bytes + result.answered_bytes) / 1e9,
                  .prefill_tokens_per_s = per_s(result.prefill_tokens),
                  .requests_per_batch = Share(static_cast<double>(result.batch_requests),
                                              static_cast<double>(result.accounts))};
  if (result.pace.has_value()) {
    // Requests that were all due at once have no rate of their own.
    const absl::Duration span = result.pace->span;
    const double due_s = span > absl::Nanoseconds(1) ? absl::ToDoubleSeconds(span) : window_s;
    rates.offered_per_s = Share(static_cast<double>(result.pace->due), due_s);
    rates.sent_per_s = Share(static_cast<double>(result.pace->due - result.pace->not_sent), due_s);
  }
  return rates;
}

}  // namespace attention
