#include "client/cli/top/top_rates.h"

#include <algorithm>

namespace attention {
namespace {

constexpr double kNsPerMs = 1e6;
constexpr double kNsPerS = 1e9;

std::optional<double> Mean(double sum, double count) {
  return count > 0 ? std::optional(sum / count) : std::nullopt;
}

/// The times of the server, or of one model: the fields have the same names.
template <typename Statistics>
AnswerTimes TimesBetween(const Statistics& before, const Statistics& after) {
  const double answered = static_cast<double>(after.succeeded() - before.succeeded());
  const auto mean_ms = [&](int64_t old_ns, int64_t new_ns) {
    return Mean(static_cast<double>(new_ns - old_ns) / kNsPerMs, answered);
  };
  return {.receive_ms = mean_ms(before.receive_ns(), after.receive_ns()),
          .queue_ms = mean_ms(before.queue_ns(), after.queue_ns()),
          .compute_ms = mean_ms(before.compute_ns(), after.compute_ns()),
          .send_ms = mean_ms(before.send_ns(), after.send_ns())};
}

std::vector<ModelRates> ModelsBetween(const v1::ServerStatistics& before,
                                      const v1::ServerStatistics& after, double interval_s) {
  static const v1::ModelStatistics kNone;
  std::vector<ModelRates> models;
  for (const v1::ModelStatistics& now : after.models()) {
    const auto same = std::find_if(
        before.models().begin(), before.models().end(), [&](const v1::ModelStatistics& other) {
          return other.model() == now.model() && other.version() == now.version();
        });
    const v1::ModelStatistics& old = same == before.models().end() ? kNone : *same;
    const auto per_s = [&](int64_t then, int64_t since) {
      return static_cast<double>(since - then) / interval_s;
    };
    models.push_back({.name = now.model(),
                      .version = now.version(),
                      .answered_per_s = per_s(old.succeeded(), now.succeeded()),
                      .refused_per_s = per_s(old.refused(), now.refused()),
                      .failed_per_s = per_s(old.failed(), now.failed()),
                      .tokens_per_s = per_s(old.tokens(), now.tokens()),
                      .times = TimesBetween(old, now),
                      .answered = now.succeeded()});
  }
  return models;
}

}  // namespace

std::optional<double> AnswerTimes::total_ms() const {
  return compute_ms.has_value() ? std::optional(*receive_ms + *queue_ms + *compute_ms + *send_ms)
                                : std::nullopt;
}

TopRates RatesBetween(const v1::ServerStatistics& before, const v1::ServerStatistics& after) {
  static const v1::ServerStatistics kStart;
  const v1::ServerStatistics& old = after.uptime_ns() < before.uptime_ns() ? kStart : before;
  const double interval_ns = std::max<double>(1, after.uptime_ns() - old.uptime_ns());
  const double interval_s = interval_ns / kNsPerS;
  const auto per_s = [&](int64_t then, int64_t now) {
    return static_cast<double>(now - then) / interval_s;
  };
  const double batches = static_cast<double>(after.batches() - old.batches());
  const auto per_batch = [&](int64_t then, int64_t now) {
    return Mean(static_cast<double>(now - then), batches);
  };
  const double busy_ns = static_cast<double>(after.busy_ns() - old.busy_ns());
  return {.interval_s = interval_s,
          .answered_per_s = per_s(old.succeeded(), after.succeeded()),
          .refused_per_s = per_s(old.refused(), after.refused()),
          .failed_per_s = per_s(old.failed(), after.failed()),
          .times = TimesBetween(old, after),
          .batches_per_s = batches / interval_s,
          .tokens_per_s = per_s(old.batch_tokens(), after.batch_tokens()),
          .batch_requests = per_batch(old.batch_requests(), after.batch_requests()),
          .batch_tokens = per_batch(old.batch_tokens(), after.batch_tokens()),
          .busy_share = std::clamp(busy_ns / interval_ns, 0.0, 1.0),
          .cores = per_s(old.cpu_ns(), after.cpu_ns()) / kNsPerS,
          .throttled_cores = per_s(old.throttled_ns(), after.throttled_ns()) / kNsPerS,
          .received_bytes_per_s = per_s(old.received_bytes(), after.received_bytes()),
          .sent_bytes_per_s = per_s(old.sent_bytes(), after.sent_bytes()),
          .models = ModelsBetween(old, after, interval_s)};
}

}  // namespace attention
