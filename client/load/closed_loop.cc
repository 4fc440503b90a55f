#include <chrono>

#include "client/lib/channel.h"
#include "client/load/event_queue.h"
#include "client/load/lane.h"
#include "client/load/length_mix.h"
#include "client/load/load_generator.h"
#include "client/load/recorder.h"
#include "client/load/window_plan.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using Clock = std::chrono::steady_clock;

class ClosedLoop {
 public:
  ClosedLoop(const EncodedLoad& load, const LoadOptions& options, const LoadControl& control,
             const LoadChannels& channels)
      : load_(load),
        options_(options),
        window_(options),
        recorder_(options, control, window_.window()),
        samples_(options, window_.window()),
        draw_(load.weights, options.seed),
        lanes_(load, options, channels, events_.queue()) {}

  LoadResult Run() {
    for (int i = 0; i < options_.concurrency && MayStart(Clock::now()); ++i) {
      ++under_way_;
      Start(lanes_.Make(), Clock::now());
    }
    while (under_way_ > 0) {
      events_.Next([this](void* tag, bool ok) { Take(*static_cast<Lane*>(tag), ok); });
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
  void Take(Lane& lane, bool ok) {
    if (!lane.Advance(ok)) {
      return;
    }
    const Clock::time_point now = Clock::now();
    --under_way_;
    recorder_.Count(load_, lane, now);
    window_.Advance(now, recorder_.num_ended(), recorder_.num_measured());
    gave_up_ = gave_up_ || recorder_.failures_in_a_row() > kMaxFailuresInARow;
    if (MayStart(now)) {
      ++under_way_;
      Start(lane, now);
    }
  }

  /// Not when those under way are all that are wanted.
  bool MayStart(Clock::time_point now) const {
    return !gave_up_ && window_.IsOpen(now) &&
           !window_.IsEnough(now, recorder_.num_measured() + under_way_);
  }

  void Start(Lane& lane, Clock::time_point now) {
    const size_t kind = draw_.Next();
    recorder_.CountSent(now);
    lane.Start({.kind = kind,
                .bytes = load_.kinds[kind].bytes,
                .due = {},
                .keep_all = samples_.Take(now)});
  }

  const EncodedLoad& load_;
  const LoadOptions& options_;
  ClosedWindow window_;
  Recorder recorder_;
  SampleSchedule samples_;
  WeightedDraw draw_;
  EventQueue events_;
  LanePool lanes_;
  int64_t under_way_ = 0;
  bool gave_up_ = false;
};

}  // namespace

absl::StatusOr<LoadResult> RunClosedLoop(const EncodedLoad& load, const LoadOptions& options,
                                         const LoadControl& control) {
  ASSIGN_OR_RETURN(const LoadChannels channels,
                   MakeChannels(options.connection, options.connections));
  return ClosedLoop(load, options, control, channels).Run();
}

}  // namespace attention
