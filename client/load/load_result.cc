#include "client/load/load_result.h"

#include <algorithm>
#include <utility>

namespace attention {
namespace {

void MergePace(const PaceTally& from, PaceTally& into) {
  into.due += from.due;
  into.not_sent += from.not_sent;
  into.lag_ns.Merge(from.lag_ns);
}

void MergeFailures(const Failures& from, Failures& into) {
  for (const auto& [code, failure] : from) {
    FailureTally& tally = into[code];
    if (tally.count == 0) {
      tally.first_text = failure.first_text;
    }
    tally.count += failure.count;
    tally.latency_ns.Merge(failure.latency_ns);
  }
}

/// All but when.
void MergeCounts(const LoadResult& from, LoadResult& into) {
  for (int64_t LoadResult::* const count :
       {&LoadResult::answers, &LoadResult::tokens, &LoadResult::request_bytes,
        &LoadResult::answered_bytes, &LoadResult::prefills, &LoadResult::prefill_tokens,
        &LoadResult::accounts, &LoadResult::batch_requests}) {
    into.*count += from.*count;
  }
  for (Histogram LoadPhases::* const phase : {&LoadPhases::send_ns, &LoadPhases::queue_ns,
                                              &LoadPhases::compute_ns, &LoadPhases::receive_ns}) {
    (into.phases.*phase).Merge(from.phases.*phase);
  }
  for (Histogram LoadResult::* const latency :
       {&LoadResult::latency_ns, &LoadResult::service_ns, &LoadResult::first_message_ns,
        &LoadResult::message_gap_ns, &LoadResult::token_ns}) {
    (into.*latency).Merge(from.*latency);
  }
  MergeFailures(from.failures, into.failures);
  into.gave_up = into.gave_up || from.gave_up;
  into.was_stopped = into.was_stopped || from.was_stopped;
  into.client_cpu_share = std::max(into.client_cpu_share, from.client_cpu_share);
  into.client_wait_share = std::max(into.client_wait_share, from.client_wait_share);
  if (from.pace.has_value()) {
    into.pace = into.pace.has_value() ? std::move(into.pace) : PaceTally();
    MergePace(*from.pace, *into.pace);
  }
}

}  // namespace

LoadResult MergeResults(std::vector<LoadResult> results) {
  std::sort(results.begin(), results.end(),
            [](const LoadResult& a, const LoadResult& b) { return a.started < b.started; });
  LoadResult merged;
  merged.started = results.front().started;
  merged.series = TimeSeries(results.front().series.slice());
  absl::Time covered_until = merged.started;
  absl::Duration pauses;
  for (const LoadResult& result : results) {
    pauses += std::max(absl::ZeroDuration(), result.started - covered_until);
    covered_until = std::max(covered_until, result.started + result.window);
    merged.series.Merge(result.series, result.started - merged.started - pauses);
    MergeCounts(result, merged);
  }
  merged.window = covered_until - merged.started - pauses;
  return merged;
}

int64_t NumFailures(const Failures& failures) {
  int64_t total = 0;
  for (const auto& [code, failure] : failures) {
    total += failure.count;
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
    rates.offered_per_s = per_s(result.pace->due);
    rates.sent_per_s = per_s(result.pace->due - result.pace->not_sent);
  }
  return rates;
}

}  // namespace attention
