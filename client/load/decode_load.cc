#include "client/load/decode_load.h"

#include <grpcpp/completion_queue.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "client/lib/channel.h"
#include "client/lib/request_codec.h"
#include "client/load/cpu_meter.h"
#include "client/load/recorder.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"

namespace attention {
namespace {

using Clock = std::chrono::steady_clock;

/// More failures in a row than this end the run.
constexpr int64_t kMaxFailuresInARow = 200;

int64_t NanosecondsBetween(Clock::time_point from, Clock::time_point to) {
  return std::chrono::nanoseconds(to - from).count();
}

class DecodeLoop {
 public:
  DecodeLoop(const EncodedSession& session, const LoadOptions& options,
             const std::vector<std::shared_ptr<grpc::Channel>>& channels)
      : options_(options),
        session_timeout_(options.timeout * (session.steps + 2)),
        window_(WindowFromNow(options)),
        samples_(options.num_samples, window_),
        cpu_(window_) {
    for (int i = 0; i < options.concurrency; ++i) {
      lanes_.push_back(
          std::make_unique<DecodeLane>(channels[i % channels.size()], session, queue_));
    }
    result_.window = options.duration;
  }

  DecodeLoadResult Run() {
    for (const auto& lane : lanes_) {
      Start(*lane);
    }
    under_way_ = std::ssize(lanes_);
    void* tag = nullptr;
    bool ok = false;
    while (under_way_ > 0 && queue_.Next(&tag, &ok)) {
      DecodeLane& lane = *static_cast<DecodeLane*>(tag);
      const DecodeLane::Event event = lane.Advance(ok);
      const Clock::time_point now = Clock::now();
      cpu_.Look(now);
      Take(event, lane, now);
    }
    queue_.Shutdown();
    while (queue_.Next(&tag, &ok)) {
    }
    cpu_.Look(Clock::now());
    result_.client_cpu_share = cpu_.share();
    return std::move(result_);
  }

 private:
  void Start(DecodeLane& lane) { lane.Start(absl::ToChronoTime(absl::Now() + session_timeout_)); }

  bool IsOver(Clock::time_point now) const { return now >= window_.end || result_.gave_up; }

  void Take(DecodeLane::Event event, DecodeLane& lane, Clock::time_point now) {
    switch (event) {
      case DecodeLane::Event::kNone:
        return;
      case DecodeLane::Event::kPrefilled:
      case DecodeLane::Event::kStepped:
        Count(event, lane, now);
        [[fallthrough]];
      case DecodeLane::Event::kOpened:
        lane.Go(IsOver(now), samples_.Take(now));
        return;
      case DecodeLane::Event::kEnded:
        CountEnd(lane, now);
        if (IsOver(now)) {
          --under_way_;
        } else {
          Start(lane);
        }
    }
  }

  void Count(DecodeLane::Event event, const DecodeLane& lane, Clock::time_point now) {
    failures_in_a_row_ = 0;
    if (lane.keeps()) {
      result_.samples.push_back({lane.index(), lane.messages()});
    }
    if (now < window_.start || now >= window_.end) {
      return;
    }
    if (event == DecodeLane::Event::kPrefilled) {
      ++result_.prefills;
      result_.first_answer_ns.Record(NanosecondsBetween(lane.session_started(), now));
      return;
    }
    ++result_.steps;
    result_.step_ns.Record(NanosecondsBetween(lane.action_started(), now));
    result_.account.queue_ns += lane.summary().queue_ns();
    result_.account.compute_ns += lane.summary().compute_ns();
    result_.account.batch_requests += lane.summary().batch_requests();
  }

  void CountEnd(const DecodeLane& lane, Clock::time_point now) {
    if (lane.failure().ok()) {
      return;
    }
    FailureTally& tally = result_.failures[absl::StatusCodeToString(lane.failure().code())];
    if (tally.count++ == 0) {
      tally.first_text = std::string(lane.failure().message());
    }
    if (now >= window_.start && now < window_.end) {
      tally.latency_ns.Record(NanosecondsBetween(lane.action_started(), now));
    }
    result_.gave_up = result_.gave_up || ++failures_in_a_row_ > kMaxFailuresInARow;
  }

  const LoadOptions& options_;
  const absl::Duration session_timeout_;
  const PaceWindow window_;
  SampleSchedule samples_;
  CpuMeter cpu_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<DecodeLane>> lanes_;
  DecodeLoadResult result_;
  int64_t under_way_ = 0;
  int64_t failures_in_a_row_ = 0;
};

}  // namespace

absl::StatusOr<EncodedSession> EncodeSession(const DecodePlan& plan) {
  EncodedSession session;
  v1::DecodeRequest open;
  *open.mutable_open() = plan.open();
  session.open = Encoder().Encode(open);
  ASSIGN_OR_RETURN(session.prefill, EncodeStep({}, plan.Prefill()));
  ASSIGN_OR_RETURN(session.step, EncodeStep({}, plan.Step()));
  session.steps = plan.options().steps;
  return session;
}

absl::StatusOr<DecodeLoadResult> RunDecodeLoad(const EncodedSession& session,
                                               const LoadOptions& options) {
  ASSIGN_OR_RETURN(const auto channels, MakeChannels(options.connection, options.connections));
  return DecodeLoop(session, options, channels).Run();
}

}  // namespace attention
