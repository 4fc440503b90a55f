#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/load/event_queue.h"
#include "client/load/lane.h"
#include "client/load/length_mix.h"
#include "client/load/load_channels.h"
#include "client/load/load_generator.h"
#include "client/load/recorder.h"
#include "client/load/window_plan.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using Clock = std::chrono::steady_clock;

class OpenLoop {
 public:
  OpenLoop(const EncodedLoad& load, const LoadOptions& options, const LoadControl& control,
           const LoadChannels& channels)
      : load_(load),
        options_(options),
        start_(Clock::now()),
        plan_(PlanOpenWindow(options, start_)),
        window_(plan_.start, plan_.end, plan_.awaits_answers),
        recorder_(options, control, window_),
        samples_(options, window_),
        draw_(load.weights, options.seed),
        lanes_(load, options, channels, events_.queue()) {}

  LoadResult Run() {
    std::jthread dispatcher([this] {
      tally_ = Pace(Schedule(options_.open_loop->arrivals, start_), PacerClock::Real(), window_,
                    recorder_.slice(), [this](Clock::time_point due) { return Send(due); });
      Release();
    });
    TakeAnswers();
    dispatcher.join();
    LoadResult result = recorder_.Finish();
    if (not_sent_ > 0) {
      FailureTally& tally = result.failures[kNotSent];
      tally.count = not_sent_;
      tally.in_window = tally_.not_sent;
      tally.first_text = absl::StrCat(options_.open_loop->max_in_flight,
                                      " requests were in flight (--max-in-flight)");
    }
    result.series.Merge(std::exchange(tally_.series, TimeSeries()));
    result.pace = std::move(tally_);
    return result;
  }

 private:
  // The dispatcher calls these two.

  bool Send(Clock::time_point due) {
    // Drawn even if the request cannot be sent, so that the sequence of requests does not depend on
    // the server.
    const size_t kind = NextKind();
    Lane* const lane = lanes_.Take(options_.open_loop->max_in_flight);
    if (lane == nullptr) {
      ++not_sent_;
      return false;
    }
    in_flight_.fetch_add(1);
    lane->Start({.kind = kind,
                 .bytes = load_.kinds[kind].bytes,
                 .due = due,
                 .keep_all = samples_.Take(due)});
    return true;
  }

  size_t NextKind() {
    const ArrivalTrace* const trace = options_.open_loop->arrivals.trace.get();
    return trace == nullptr || trace->kinds.empty() ? draw_.Next() : trace->kinds[num_due_++];
  }

  // Both threads call this.

  /// Shuts the queue down when the last call or the dispatcher has finished.
  void Release() {
    if (in_flight_.fetch_sub(1) == 1) {
      events_.queue().Shutdown();
    }
  }

  // The calling thread calls this.

  void TakeAnswers() {
    const auto take = [this](void* tag, bool ok) {
      Lane& lane = *static_cast<Lane*>(tag);
      if (lane.Advance(ok)) {
        if (!recorder_.Count(load_, lane, Clock::now()) && lane.call().keep_all) {
          samples_.GiveBack();
        }
        lanes_.GiveBack(lane);
        Release();
      }
    };
    while (events_.Next(take)) {
      recorder_.Watch(Clock::now(), std::max<int64_t>(0, in_flight_.load() - 1));
    }
  }

  const EncodedLoad& load_;
  const LoadOptions& options_;
  const Clock::time_point start_;
  const OpenWindow plan_;
  MeasuredWindow window_;
  EventQueue events_;

  // The calling thread uses this.
  Recorder recorder_;

  // The dispatcher uses these, until it is joined; the calling thread gives samples back.
  SampleSchedule samples_;
  WeightedDraw draw_;
  size_t num_due_ = 0;
  int64_t not_sent_ = 0;
  PaceTally tally_;

  LanePool lanes_;
  std::atomic<int64_t> in_flight_{1};  // calls, and the dispatcher
};

}  // namespace

absl::StatusOr<LoadResult> RunOpenLoop(const EncodedLoad& load, const LoadOptions& options,
                                       const LoadControl& control) {
  ASSIGN_OR_RETURN(const LoadChannels channels, ConnectChannels(options, control));
  return OpenLoop(load, options, control, channels).Run();
}

}  // namespace attention
