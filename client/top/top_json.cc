#include <optional>
#include <utility>

#include "client/top/top_screen.h"

namespace attention {
namespace {

nlohmann::json OrNull(std::optional<double> value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json TimesJson(const AnswerTimes& times) {
  return {{"receive_mean", OrNull(times.receive_ms)},
          {"queue_mean", OrNull(times.queue_ms)},
          {"compute_mean", OrNull(times.compute_ms)},
          {"send_mean", OrNull(times.send_ms)},
          {"mean", OrNull(times.total_ms())},
          {"p50", OrNull(times.p50_ms)},
          {"p99", OrNull(times.p99_ms)}};
}

nlohmann::json ModelJson(const ModelRates& model) {
  return {{"name", model.name},
          {"version", model.version},
          {"answered_per_s", model.answered_per_s},
          {"refused_per_s", model.refused_per_s},
          {"failed_per_s", model.failed_per_s},
          {"tokens_per_s", model.tokens_per_s},
          {"latency_ms", TimesJson(model.times)},
          {"answered", model.answered}};
}

}  // namespace

nlohmann::json TopJson(const TopView& view) {
  const v1::ServerStatistics& now = view.statistics;
  const TopRates& rates = view.rates;
  nlohmann::json models = nlohmann::json::array();
  for (const ModelRates& model : rates.models) {
    models.push_back(ModelJson(model));
  }
  return {{"server", view.server},
          {"time", view.time},
          {"uptime_s", now.uptime_ns() / 1e9},
          {"interval_s", rates.interval_s},
          {"threads", now.threads()},
          {"busy_share", rates.busy_share},
          {"cores", rates.cores},
          {"throttled_cores", rates.throttled_cores},
          {"resident_bytes", now.resident_bytes()},
          {"received_bytes_per_s", rates.received_bytes_per_s},
          {"sent_bytes_per_s", rates.sent_bytes_per_s},
          {"requests",
           {{"answered_per_s", rates.answered_per_s},
            {"refused_per_s", rates.refused_per_s},
            {"failed_per_s", rates.failed_per_s},
            {"answered", now.succeeded()},
            {"refused", now.refused()},
            {"failed", now.failed()}}},
          {"latency_ms", TimesJson(rates.times)},
          {"batches",
           {{"per_s", rates.batches_per_s},
            {"requests", OrNull(rates.batch_requests)},
            {"tokens", OrNull(rates.batch_tokens)},
            {"tokens_per_s", rates.tokens_per_s}}},
          {"queue",
           {{"requests", now.waiting_requests()},
            {"bytes", now.waiting_bytes()},
            {"work_s", now.waiting_ns() / 1e9},
            {"running_requests", now.running_requests()}}},
          {"sessions",
           {{"open", now.sessions()},
            {"parked", now.parked_sessions()},
            {"cache_bytes", now.cache_bytes()},
            {"max_cache_bytes", now.max_cache_bytes()}}},
          {"models", std::move(models)}};
}

}  // namespace attention
