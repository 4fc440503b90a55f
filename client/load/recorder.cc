#include "client/load/recorder.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "proto/codec/status.h"

namespace attention {
namespace {

int64_t NanosecondsBetween(Recorder::Clock::time_point from, Recorder::Clock::time_point to) {
  return std::chrono::nanoseconds(to - from).count();
}

}  // namespace

PaceWindow WindowFromNow(const LoadOptions& options) {
  const auto start = Recorder::Clock::now() + absl::ToChronoNanoseconds(options.warmup);
  return {start, start + absl::ToChronoNanoseconds(options.duration)};
}

Recorder::Recorder(const EncodedLoad& load, const LoadOptions& options, const PaceWindow& window)
    : load_(load), options_(options), window_(window), cpu_(window) {
  result_.window = options.duration;
}

void Recorder::Count(const Lane& lane, Clock::time_point now) {
  cpu_.Look(now);
  if (!lane.status().ok()) {
    CountError(lane, ToAbslStatus(lane.status()), now);
    return;
  }
  const absl::StatusOr<std::optional<ServerAccount>> account =
      load_.protocol->ReadAccount(lane.answer());
  if (!account.ok()) {
    CountError(lane, account.status(), now);
    return;
  }
  failures_in_a_row_ = 0;
  if (IsWithin(now)) {
    CountAnswer(lane, *account);
  }
  if (IsMeasured(lane, now)) {
    CountLatency(lane, now);
  }
  if (lane.call().keep_all) {
    result_.samples.push_back({lane.call().kind, lane.answer()});
  }
}

LoadResult Recorder::Finish() {
  cpu_.Look(Clock::now());
  result_.client_cpu_share = cpu_.share();
  return std::move(result_);
}

bool Recorder::IsMeasured(const Lane& lane, Clock::time_point now) const {
  return IsWithin(options_.open_loop.has_value() ? lane.due() : now);
}

void Recorder::CountError(const Lane& lane, const absl::Status& status, Clock::time_point now) {
  FailureTally& tally = result_.failures[absl::StatusCodeToString(status.code())];
  if (tally.count++ == 0) {
    tally.first_text = std::string(status.message());
  }
  if (IsMeasured(lane, now)) {
    tally.latency_ns.Record(NanosecondsBetween(lane.due(), now));
  }
  ++failures_in_a_row_;
}

void Recorder::CountAnswer(const Lane& lane, const std::optional<ServerAccount>& account) {
  const EncodedRequest& request = load_.kinds[lane.call().kind];
  ++result_.answers;
  result_.tokens += request.tokens;
  result_.request_bytes += static_cast<int64_t>(request.bytes.Length());
  result_.answered_bytes += lane.answered_bytes();
  if (account.has_value()) {
    ++result_.accounts;
    result_.account.queue_ns += account->queue_ns;
    result_.account.compute_ns += account->compute_ns;
    result_.account.batch_requests += account->batch_requests;
  }
}

void Recorder::CountLatency(const Lane& lane, Clock::time_point now) {
  result_.latency_ns.Record(NanosecondsBetween(lane.due(), now));
  if (options_.open_loop.has_value()) {
    result_.service_ns.Record(NanosecondsBetween(lane.started(), now));
  }
  if (load_.protocol->is_streaming()) {
    result_.first_message_ns.Record(NanosecondsBetween(lane.due(), *lane.first_message()));
  }
}

}  // namespace attention
