#include <grpcpp/completion_queue.h>

#include <chrono>
#include <memory>
#include <vector>

#include "client/lib/channel.h"
#include "client/load/lane.h"
#include "client/load/lane_pool.h"
#include "client/load/length_mix.h"
#include "client/load/load_generator.h"
#include "client/load/recorder.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using Clock = std::chrono::steady_clock;

/// More failures in a row than this end the run.
constexpr int64_t kMaxFailuresInARow = 200;

class ClosedLoop {
 public:
  ClosedLoop(const EncodedLoad& load, const LoadOptions& options, const LoadChannels& channels)
      : load_(load),
        options_(options),
        window_(WindowFromNow(options)),
        recorder_(load, options, window_),
        samples_(options.num_samples, window_),
        draw_(load.weights, options.seed),
        lanes_(load, options, channels, queue_) {}

  LoadResult Run() {
    for (int i = 0; i < options_.concurrency; ++i) {
      Start(lanes_.Make(), Clock::now());
    }
    int under_way = options_.concurrency;
    bool gave_up = false;
    void* tag = nullptr;
    bool ok = false;
    while (under_way > 0 && queue_.Next(&tag, &ok)) {
      Lane& lane = *static_cast<Lane*>(tag);
      if (!lane.Advance(ok)) {
        continue;
      }
      const Clock::time_point now = Clock::now();
      recorder_.Count(lane, now);
      gave_up = gave_up || recorder_.failures_in_a_row() > kMaxFailuresInARow;
      if (now < window_.end && !gave_up) {
        Start(lane, now);
      } else {
        --under_way;
      }
    }
    queue_.Shutdown();
    while (queue_.Next(&tag, &ok)) {
    }
    LoadResult result = recorder_.Finish();
    result.gave_up = gave_up;
    return result;
  }

 private:
  void Start(Lane& lane, Clock::time_point now) {
    const size_t kind = draw_.Next();
    lane.Start({.kind = kind,
                .bytes = load_.kinds[kind].bytes,
                .due = {},
                .keep_all = samples_.Take(now)});
  }

  const EncodedLoad& load_;
  const LoadOptions& options_;
  const PaceWindow window_;
  Recorder recorder_;
  SampleSchedule samples_;
  WeightedDraw draw_;
  grpc::CompletionQueue queue_;
  LanePool lanes_;
};

}  // namespace

absl::StatusOr<LoadResult> RunClosedLoop(const EncodedLoad& load, const LoadOptions& options) {
  ASSIGN_OR_RETURN(const LoadChannels channels,
                   MakeChannels(options.connection, options.connections));
  return ClosedLoop(load, options, channels).Run();
}

}  // namespace attention
