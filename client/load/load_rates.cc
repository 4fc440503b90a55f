#include "client/load/load_rates.h"

#include "client/load/report_parts.h"

namespace attention {

LoadRates RatesOf(const LoadResult& result) {
  const double window_s = absl::ToDoubleSeconds(result.window);
  const auto answers = static_cast<double>(result.answers);
  const auto accounts = static_cast<double>(result.accounts);
  LoadRates rates{
      .requests_per_s = answers / window_s,
      .tokens_per_s = result.tokens / window_s,
      .gigabytes_per_s = (result.request_bytes + result.answered_bytes) / window_s / 1e9,
      .queue_ms = Milliseconds(Share(result.account.queue_ns, accounts)),
      .compute_ms = Milliseconds(Share(result.account.compute_ns, accounts)),
      .requests_per_batch = Share(result.account.batch_requests, accounts)};
  if (result.pace.has_value()) {
    rates.offered_per_s = result.pace->due / window_s;
    rates.sent_per_s = (result.pace->due - result.pace->not_sent) / window_s;
  }
  return rates;
}

}  // namespace attention
