#include "client/load/decode_load.h"

#include <memory>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/lib/request_codec.h"
#include "client/load/closed_loop.h"
#include "client/load/load_channels.h"
#include "core/runtime/status_macros.h"
#include "proto/codec/encode.h"

namespace attention {
namespace {

class DecodeLoop : public ClosedLoop<DecodeLane> {
 public:
  DecodeLoop(const EncodedSession& session, const LoadOptions& options, const LoadControl& control,
             const std::vector<std::shared_ptr<grpc::Channel>>& channels)
      : ClosedLoop(options, control),
        session_(session),
        options_(options),
        session_timeout_(options.timeout * (session.options.steps + 2)) {
    for (int i = 0; i < options.concurrency; ++i) {
      lanes_.push_back(
          std::make_unique<DecodeLane>(channels[i % channels.size()], session, events_.queue()));
    }
  }

 private:
  void StartAll() override {
    for (const auto& lane : lanes_) {
      Start(*lane);
    }
    in_flight_ = std::ssize(lanes_);
  }

  void Start(DecodeLane& lane) { lane.Start(absl::ToChronoTime(absl::Now() + session_timeout_)); }

  void Take(DecodeLane& lane, bool ok) override {
    const DecodeLane::Event event = lane.Advance(ok);
    const Clock::time_point now = Clock::now();
    switch (event) {
      case DecodeLane::Event::kNone:
        return;
      case DecodeLane::Event::kPrefilled:
        recorder_.CountPrefill(session_.options.prefill, lane.summary().cached_tokens(),
                               lane.session_started(), now);
        break;
      case DecodeLane::Event::kStepped:
        CountStep(lane, now);
        break;
      case DecodeLane::Event::kOpened:
        if (!IsOver(now)) {
          opened_.insert(&lane);
        }
        break;
      case DecodeLane::Event::kEnded:
        TakeEnd(lane, now);
        return;
    }
    if (lane.keeps()) {
      recorder_.Keep({static_cast<size_t>(lane.index()), lane.messages()});
    }
    const bool stops = IsOver(now) || !lane.has_next();
    if (!stops && event != DecodeLane::Event::kOpened) {  // opening sends the prompt next
      recorder_.CountSent(now);
    }
    lane.Go(stops, !stops && samples_.Take(now));
  }

  void CountStep(const DecodeLane& lane, Clock::time_point now) {
    recorder_.CountAnswer(
        {.due = lane.action_started(),
         .started = lane.action_started(),
         .ended = now,
         .tokens = session_.options.step_tokens,
         .request_bytes = static_cast<int64_t>(session_.different_steps.front().Length()),
         .answered_bytes = lane.answered_bytes(),
         .summary = lane.summary(),
         .is_stream = true});
    Advance(now);
  }

  void TakeEnd(DecodeLane& lane, Clock::time_point now) {
    if (!lane.failure().ok()) {
      recorder_.CountFailure(lane.failure(), lane.action_started(), lane.action_started(), now,
                             /*is_prompt=*/lane.index() <= 0);
      Advance(now);
      if (lane.keeps()) {
        samples_.GiveBack();
      }
    }
    if (IsOver(now)) {
      --in_flight_;
    } else {
      Start(lane);
    }
  }

  /// Sessions that never were open are in no other number of the result.
  void Complete(LoadResult& result) override {
    const int64_t missing = std::ssize(lanes_) - std::ssize(opened_);
    // A load that is over after a number of steps, or is stopped, may end before all are open.
    const bool has_all = options_.requests > 0 && recorder_.num_measured() >= options_.requests;
    if (missing == 0 || has_all || result.was_stopped || result.gave_up) {
      return;
    }
    FailureTally& tally = result.failures[kNotSent];
    tally.count = tally.in_window = missing;
    tally.first_text = absl::StrCat(missing, " of ", lanes_.size(),
                                    " sessions were not opened before the load ended, on ",
                                    options_.connections, " connections (--connections)");
  }

  const EncodedSession& session_;
  const LoadOptions& options_;
  const absl::Duration session_timeout_;
  std::set<const DecodeLane*> opened_;
  std::vector<std::unique_ptr<DecodeLane>> lanes_;
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
  session.options = plan.options();
  return session;
}

absl::StatusOr<LoadResult> RunDecodeLoad(const EncodedSession& session, const LoadOptions& options,
                                         const LoadControl& control) {
  ASSIGN_OR_RETURN(const auto channels, ConnectChannels(options, control));
  return DecodeLoop(session, options, control, channels).Run();
}

}  // namespace attention
