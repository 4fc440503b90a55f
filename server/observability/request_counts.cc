#include "server/observability/request_counts.h"

#include <optional>

namespace attention {
namespace {

int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

void AddSums(const RequestCounts& from, RequestCounts& to) {
  to.succeeded += from.succeeded;
  to.refused += from.refused;
  to.failed += from.failed;
  to.receive_ns += from.receive_ns;
  to.queue_ns += from.queue_ns;
  to.compute_ns += from.compute_ns;
  to.send_ns += from.send_ns;
  to.tokens += from.tokens;
  to.cached_tokens += from.cached_tokens;
  to.executions += from.executions;
  to.unsuccessful_ns += from.unsuccessful_ns;
  to.last_success_unix_ms = std::max(to.last_success_unix_ms, from.last_success_unix_ms);
  to.received_bytes += from.received_bytes;
}

// Adds the outcomes. Latencies count answered requests only.
void AddOutcomes(const RequestCounts& from, RequestCounts& to) {
  AddSums(from, to);
  if (from.succeeded > 0) {
    to.latency.Add(from.latency);
  }
}

void CountSuccess(const RequestRecord& record, RequestSeries& series) {
  RequestCounts& counts = series.counts;
  ++counts.succeeded;
  counts.receive_ns += record.receive_ns;
  counts.queue_ns += record.queue_ns;
  counts.compute_ns += record.compute_ns;
  counts.send_ns += record.send_ns;
  counts.tokens += record.tokens;
  counts.cached_tokens += record.cached_tokens;
  counts.executions += record.batch_requests > 0 ? 1.0 / record.batch_requests : 0;
  counts.last_success_unix_ms = NowMs();
  series.send.Observe(record.send_ns);
}

void CountAny(const RequestRecord& record, RequestSeries& series) {
  series.counts.received_bytes += record.request_bytes;
  series.counts.latency.Observe(record.total_ns);
  if (record.batch_id > 0) {
    series.queue.Observe(record.queue_ns);
    series.compute.Observe(record.compute_ns);
  }
  if (record.first_block_ns > 0) {
    series.first_block.Observe(record.first_block_ns);
  }
}

}  // namespace

RequestSeries& RequestCounter::SeriesOf(const RequestRecord& record) {
  const std::tuple<std::string_view, int64_t, std::string_view, absl::StatusCode> key(
      record.model, record.model_version, record.rpc, record.status.code());
  if (const auto found = series_.find(key); found != series_.end()) {
    return found->second;
  }
  const bool has_room = record.model.empty() || series_.size() < kMaxSeries;
  return series_[FullKey(has_room ? record.model : kOtherModels,
                         has_room ? record.model_version : 0, record.rpc, record.status.code())];
}

void RequestCounter::Count(const RequestRecord& record) {
  const std::optional<RefusalReason> reason = ReasonOf(record.status);
  MutexLock lock(mutex_);
  RequestSeries& series = SeriesOf(record);
  CountAny(record, series);
  if (record.status.ok()) {
    CountSuccess(record, series);
    return;
  }
  ++(reason.has_value() ? series.counts.refused : series.counts.failed);
  series.counts.unsuccessful_ns += record.total_ns;
  if (reason.has_value()) {
    ++refused_[static_cast<int>(*reason)];
  }
}

RequestCounts RequestCounter::total() const {
  MutexLock lock(mutex_);
  RequestCounts total;
  for (const auto& [key, series] : series_) {
    AddOutcomes(series.counts, total);
  }
  return total;
}

std::map<std::pair<std::string, int64_t>, RequestCounts> RequestCounter::by_model() const {
  MutexLock lock(mutex_);
  std::map<std::pair<std::string, int64_t>, RequestCounts> models;
  for (const auto& [key, series] : series_) {
    AddOutcomes(series.counts, models[{std::get<0>(key), std::get<1>(key)}]);
  }
  return models;
}

std::map<RequestCounter::Key, RequestSeries> RequestCounter::series() const {
  MutexLock lock(mutex_);
  std::map<Key, RequestSeries> all;
  for (const auto& [key, from] : series_) {
    const auto& [model, version, rpc, code] = key;
    RequestSeries& to = all[Key(rpc, model, code)];
    AddSums(from.counts, to.counts);
    to.counts.latency.Add(from.counts.latency);
    to.queue.Add(from.queue);
    to.compute.Add(from.compute);
    to.first_block.Add(from.first_block);
    to.send.Add(from.send);
  }
  return all;
}

std::array<int64_t, kNumRefusalReasons> RequestCounter::refused() const {
  MutexLock lock(mutex_);
  return refused_;
}

}  // namespace attention
