// Counts the calls of a load as they end, and watches the load.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/load/cpu_meter.h"
#include "client/load/lane.h"
#include "client/load/load_options.h"
#include "client/load/load_result.h"
#include "client/load/measured_window.h"
#include "client/load/request_mix.h"

namespace attention {

/// The number of failures in a row that a closed loop tolerates, however long they take.
inline constexpr int64_t kMaxFailuresInARow = 200;

/// The counted facts of an answer.
struct Answered {
  using Time = std::chrono::steady_clock::time_point;

  Time due, started, ended;
  int64_t tokens = 0;
  int64_t request_bytes = 0;
  int64_t answered_bytes = 0;
  v1::Summary summary = {};  // empty if the protocol has none
  /// Whether the time per token is recorded.
  bool is_stream = false;
  /// When the first message of a stream of messages came.
  std::optional<Time> first_message = std::nullopt;
};

/// Counts the calls of a load. Only for the thread that takes the answers.
class Recorder {
 public:
  using Clock = std::chrono::steady_clock;

  /// Borrows all three.
  Recorder(const LoadOptions& options, const LoadControl& control, MeasuredWindow& window);

  /// Counts a request, or a step, that a closed loop sent. In an open loop the pacer counts them.
  void CountSent(Clock::time_point now);
  /// Counts a call that ended at `now`. Returns whether it was answered.
  bool Count(const EncodedLoad& load, const Lane& lane, Clock::time_point now);

  void CountAnswer(const Answered& answered);
  /// Counts the answer to the prompt of a session that began at `started`; `cached` of its tokens
  /// came from the prefix cache.
  void CountPrefill(int64_t tokens, int64_t cached, Clock::time_point started,
                    Clock::time_point now);
  void CountFailure(const absl::Status& status, Clock::time_point due, Clock::time_point started,
                    Clock::time_point now, bool is_prompt = false);
  void Keep(LoadSample sample) { result_.samples.push_back(std::move(sample)); }

  /// Returns the number of ended calls that count.
  int64_t num_measured() const { return num_measured_; }
  /// The length of the slices with which the result's series begins.
  absl::Duration slice() const { return slice_; }
  /// Returns whether nothing but failures, and more than kMaxFailuresInARow, came for as long as
  /// LoadOptions::patience.
  bool IsHopeless(Clock::time_point now) const;

  /// Reports progress, and asks the window to end if the load was stopped or is stable. REQUIRES:
  /// called often.
  void Watch(Clock::time_point now, int64_t in_flight);

  /// Returns the result. REQUIRES: called once, at the end.
  LoadResult Finish();

 private:
  void CountMessages(const Lane& lane);
  /// Adds a record to those of the result, if it has them. `due_ns` is set by Finish.
  void AddRecord(const CallRecord& record, Clock::time_point due);
  bool IsMeasured(Clock::time_point due, Clock::time_point now) const;
  /// Counts a call that was in flight when the window ended.
  void CountIfUnfinished(Clock::time_point due, Clock::time_point ended);
  /// Adds the slices before `end` that have no counts: they are times without answers.
  void FillSeries(Clock::time_point end);
  /// Returns whether a call that ended then ended within the window, which it lengthens if that
  /// awaits answers.
  bool IsWithin(bool is_measured, Clock::time_point ended);
  TimeSlice& SliceAt(Clock::time_point time);
  void ReportProgress(Clock::time_point now, int64_t in_flight);
  bool IsSettled(Clock::time_point now);

  const LoadOptions& options_;
  const LoadControl& control_;
  MeasuredWindow& window_;
  LoadResult result_;
  /// When the calls of result_.records were due: the window may still move.
  std::vector<Clock::time_point> recorded_due_;
  CpuMeter cpu_;
  int64_t num_measured_ = 0;
  absl::Duration slice_;
  int64_t num_failed_ = 0;
  /// The failures since the last answer, and when that came; before it, when the load began.
  int64_t failures_in_a_row_ = 0;
  Clock::time_point answered_at_;
  /// The end of the last call that a window with awaits_answers waited for.
  Clock::time_point last_awaited_;
  int trials_judged_ = 0;

  // When progress was last reported, and the latencies of answers since then.
  Clock::time_point reported_at_;
  Histogram unreported_ns_;
};

/// Chooses the requests whose answers are kept whole, at even distances over the window.
class SampleSchedule {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Borrows both.
  SampleSchedule(const LoadOptions& options, const MeasuredWindow& window);

  /// Returns whether to keep the answer to the request that is sent at `now`.
  bool Take(Time now);
  /// Notes that a request that was taken has failed: another is taken instead. Any thread may call
  /// it.
  void GiveBack() { num_given_back_.fetch_add(1, std::memory_order_relaxed); }

 private:
  const LoadOptions& options_;
  const MeasuredWindow& window_;
  /// The number of requests that end the window; 0: any number.
  int64_t num_requests_ = 0;
  int64_t num_sent_ = 0;  // within the window
  int64_t num_taken_ = 0;
  std::atomic<int64_t> num_given_back_ = 0;
};

}  // namespace attention
