#include "client/load/closed_loop.h"

#include "client/load/lane.h"
#include "client/load/length_mix.h"
#include "client/load/load_channels.h"
#include "client/load/load_generator.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

class RequestLoop : public ClosedLoop<Lane> {
 public:
  RequestLoop(const EncodedLoad& load, const LoadOptions& options, const LoadControl& control,
              const LoadChannels& channels)
      : ClosedLoop(options, control),
        load_(load),
        concurrency_(options.concurrency),
        draw_(load.weights, options.seed),
        lanes_(load, options, channels, events_.queue()) {}

 private:
  void StartAll() override {
    for (int i = 0; i < concurrency_ && MayStart(Clock::now()); ++i) {
      Start(*lanes_.Take(concurrency_), Clock::now());
    }
  }

  void Take(Lane& lane, bool ok) override {
    if (!lane.Advance(ok)) {
      return;
    }
    const Clock::time_point now = Clock::now();
    --in_flight_;
    if (!recorder_.Count(load_, lane, now) && lane.call().keep_all) {
      samples_.GiveBack();
    }
    lanes_.GiveBack(lane);
    Advance(now);
    if (MayStart(now)) {
      Start(*lanes_.Take(concurrency_), now);
    }
  }

  /// Returns whether another request may start. False when the run is over, or when the requests in
  /// flight complete the wanted number.
  bool MayStart(Clock::time_point now) const {
    return !IsOver(now) && !window_.IsEnough(now, recorder_.num_measured() + in_flight_);
  }

  void Start(Lane& lane, Clock::time_point now) {
    const size_t kind = draw_.Next();
    ++in_flight_;
    recorder_.CountSent(now);
    lane.Start({.kind = kind, .bytes = load_.kinds[kind].bytes, .keep_all = samples_.Take(now)});
  }

  const EncodedLoad& load_;
  const int concurrency_;
  WeightedDraw draw_;
  LanePool lanes_;
};

}  // namespace

absl::StatusOr<LoadResult> RunClosedLoop(const EncodedLoad& load, const LoadOptions& options,
                                         const LoadControl& control) {
  ASSIGN_OR_RETURN(const LoadChannels channels, ConnectChannels(options, control));
  return RequestLoop(load, options, control, channels).Run();
}

}  // namespace attention
