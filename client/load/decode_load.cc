#include "client/load/decode_load.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "client/lib/channel.h"
#include "client/lib/request_codec.h"
#include "client/load/event_queue.h"
#include "client/load/recorder.h"
#include "client/load/window_plan.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"

namespace attention {
namespace {

using Clock = std::chrono::steady_clock;

class DecodeLoop {
 public:
  DecodeLoop(const EncodedSession& session, const LoadOptions& options, const LoadControl& control,
             const std::vector<std::shared_ptr<grpc::Channel>>& channels)
      : session_(session),
        session_timeout_(options.timeout * (session.steps + 2)),
        window_(options),
        recorder_(options, control, window_.window()),
        samples_(options, window_.window()) {
    for (int i = 0; i < options.concurrency; ++i) {
      lanes_.push_back(
          std::make_unique<DecodeLane>(channels[i % channels.size()], session, events_.queue()));
    }
  }

  LoadResult Run() {
    for (const auto& lane : lanes_) {
      Start(*lane);
    }
    under_way_ = std::ssize(lanes_);
    while (under_way_ > 0) {
      events_.Next([this](void* tag, bool ok) {
        DecodeLane& lane = *static_cast<DecodeLane*>(tag);
        Take(lane.Advance(ok), lane, Clock::now());
      });
      const Clock::time_point now = Clock::now();
      recorder_.Watch(now, under_way_);
      window_.EndIfAsked(now);
    }
    events_.ShutDown();
    LoadResult result = recorder_.Finish();
    result.gave_up = gave_up_;
    return result;
  }

 private:
  void Start(DecodeLane& lane) { lane.Start(absl::ToChronoTime(absl::Now() + session_timeout_)); }

  bool IsOver(Clock::time_point now) const { return gave_up_ || !window_.IsOpen(now); }

  void Take(DecodeLane::Event event, DecodeLane& lane, Clock::time_point now) {
    switch (event) {
      case DecodeLane::Event::kNone:
        return;
      case DecodeLane::Event::kPrefilled:
        recorder_.CountPrefill(session_.prefill_tokens, lane.session_started(), now);
        break;
      case DecodeLane::Event::kStepped:
        CountStep(lane, now);
        break;
      case DecodeLane::Event::kOpened:
        break;
      case DecodeLane::Event::kEnded:
        TakeEnd(lane, now);
        return;
    }
    if (lane.keeps()) {
      recorder_.Keep({static_cast<size_t>(lane.index()), lane.messages()});
    }
    lane.Go(IsOver(now), samples_.Take(now));
  }

  void CountStep(const DecodeLane& lane, Clock::time_point now) {
    const v1::Summary& summary = lane.summary();
    recorder_.CountAnswer(
        {.due = lane.action_started(),
         .started = lane.action_started(),
         .ended = now,
         .tokens = session_.step_tokens,
         .request_bytes = static_cast<int64_t>(session_.different_steps.front().Length()),
         .answered_bytes = lane.answered_bytes(),
         .account = ServerAccount{.receive_ns = summary.receive_ns(),
                                  .queue_ns = summary.queue_ns(),
                                  .compute_ns = summary.compute_ns(),
                                  .batch_requests = summary.batch_requests()},
         .is_stream = true});
    window_.Advance(now, recorder_.num_ended(), recorder_.num_measured());
  }

  void TakeEnd(DecodeLane& lane, Clock::time_point now) {
    if (!lane.failure().ok()) {
      recorder_.CountFailure(lane.failure(), lane.action_started(), now);
      gave_up_ = gave_up_ || recorder_.failures_in_a_row() > kMaxFailuresInARow;
    }
    if (IsOver(now)) {
      --under_way_;
    } else {
      Start(lane);
    }
  }

  const EncodedSession& session_;
  const absl::Duration session_timeout_;
  ClosedWindow window_;
  Recorder recorder_;
  SampleSchedule samples_;
  EventQueue events_;
  std::vector<std::unique_ptr<DecodeLane>> lanes_;
  int64_t under_way_ = 0;
  bool gave_up_ = false;
};

}  // namespace

absl::StatusOr<EncodedSession> EncodeSession(const DecodePlan& plan) {
  EncodedSession session;
  v1::DecodeRequest open;
  *open.mutable_open() = plan.open();
  session.open = Encoder().Encode(open);
  ASSIGN_OR_RETURN(session.prefill, EncodeStep({}, plan.Prefill()));
  for (int64_t i = 0; i < plan.num_different_steps(); ++i) {
    ASSIGN_OR_RETURN(session.different_steps.emplace_back(), EncodeStep({}, plan.Step(i)));
  }
  session.steps = plan.options().steps;
  session.prefill_tokens = plan.options().prefill;
  session.step_tokens = plan.options().step_tokens;
  return session;
}

absl::StatusOr<LoadResult> RunDecodeLoad(const EncodedSession& session, const LoadOptions& options,
                                         const LoadControl& control) {
  ASSIGN_OR_RETURN(const auto channels, MakeChannels(options.connection, options.connections));
  return DecodeLoop(session, options, control, channels).Run();
}

}  // namespace attention
