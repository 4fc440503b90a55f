#include "client/load/recorder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/load/load_result.h"
#include "client/load/stability.h"
#include "proto/codec/status.h"

namespace attention {
namespace {

using Time = Recorder::Clock::time_point;

constexpr std::chrono::milliseconds kReportInterval{250};

int64_t NanosecondsBetween(Time from, Time to) {
  return std::chrono::nanoseconds(to - from).count();
}

/// Records the phases of an answer. What the summary leaves of the service time is the phase
/// `return`.
void CountPhases(const v1::Summary& summary, int64_t service_ns, LoadResult& result) {
  ++result.accounts;
  result.batch_requests += summary.batch_requests();
  result.phases.receive_ns.Record(summary.receive_ns());
  result.phases.queue_ns.Record(summary.queue_ns());
  result.phases.compute_ns.Record(summary.compute_ns());
  result.phases.return_ns.Record(service_ns - summary.receive_ns() - summary.queue_ns() -
                                 summary.compute_ns());
}

CallRecord RecordOf(const Answered& answered, bool is_measured) {
  const v1::Summary& summary = answered.summary;
  return {.is_measured = is_measured,
          .lag_ns = NanosecondsBetween(answered.due, answered.started),
          .latency_ns = NanosecondsBetween(answered.due, answered.ended),
          .first_message_ns = answered.first_message.has_value()
                                  ? NanosecondsBetween(answered.due, *answered.first_message)
                                  : 0,
          .tokens = answered.tokens,
          .request_bytes = answered.request_bytes,
          .answered_bytes = answered.answered_bytes,
          .receive_ns = summary.receive_ns(),
          .queue_ns = summary.queue_ns(),
          .compute_ns = summary.compute_ns(),
          .batch_id = summary.batch_id(),
          .batch_requests = summary.batch_requests()};
}

}  // namespace

Recorder::Recorder(const LoadOptions& options, const LoadControl& control, MeasuredWindow& window)
    : options_(options),
      control_(control),
      window_(window),
      cpu_(window),
      answered_at_(Clock::now()),
      reported_at_(Clock::now()) {
  const absl::Duration planned = options.open_loop.has_value() ? absl::FromChrono(window.length())
                                 : options.stability.has_value()
                                     ? options.duration * options.stability->max_trials
                                     : options.duration;
  slice_ = TimeSeries::SliceFor(planned);
  if (options.stability.has_value()) {  // a trial has whole slices
    slice_ = options.duration / std::ceil(absl::FDivDuration(options.duration, slice_));
  }
  result_.series = TimeSeries(slice_);
}

void Recorder::CountSent(Time now) {
  if (window_.Contains(now)) {
    TimeSlice& slice = SliceAt(now);
    ++slice.due;
    ++slice.sent;
  }
}

bool Recorder::Count(const EncodedLoad& load, const Lane& lane, Time now) {
  const absl::StatusOr<v1::Summary> summary =
      lane.status().ok() ? load.protocol->ReadSummary(lane.answer()) : ToAbslStatus(lane.status());
  if (!summary.ok()) {
    CountFailure(summary.status(), lane.due(), lane.started(), now);
    return false;
  }
  const EncodedRequest& request = load.kinds[lane.call().kind];
  const Answered answered{
      .due = lane.due(),
      .started = lane.started(),
      .ended = now,
      .tokens = request.tokens,
      .request_bytes = static_cast<int64_t>(request.bytes.Length()),
      .answered_bytes = lane.answered_bytes(),
      .summary = *summary,
      .is_stream = load.protocol->is_streaming(),
      .first_message = load.protocol->is_streaming() ? lane.first_message() : std::nullopt};
  if (answered.is_stream && IsMeasured(lane.due(), now)) {
    CountMessages(lane);
  }
  const int64_t before = result_.answers;
  CountAnswer(answered);
  if (result_.answers > before) {
    ++result_.servers[lane.peer()];
  }
  if (lane.call().keep_all) {
    Keep({lane.call().kind, lane.answer()});
  }
  return true;
}

void Recorder::CountAnswer(const Answered& answered) {
  const bool is_measured = IsMeasured(answered.due, answered.ended);
  const int64_t latency_ns = NanosecondsBetween(answered.due, answered.ended);
  const int64_t service_ns = NanosecondsBetween(answered.started, answered.ended);
  failures_in_a_row_ = 0;
  answered_at_ = answered.ended;
  num_measured_ += is_measured ? 1 : 0;
  unreported_ns_.Record(latency_ns);
  AddRecord(RecordOf(answered, is_measured), answered.due);
  CountIfUnfinished(answered.due, answered.ended);
  if (IsWithin(is_measured, answered.ended)) {
    ++result_.answers;
    result_.tokens += answered.tokens;
    result_.cached_tokens += answered.summary.cached_tokens();
    result_.request_bytes += answered.request_bytes;
    result_.answered_bytes += answered.answered_bytes;
    TimeSlice& slice = SliceAt(answered.ended);
    ++slice.answers;
    slice.tokens += answered.tokens;
  }
  if (!is_measured) {
    return;
  }
  result_.latency_ns.Record(latency_ns);
  SliceAt(options_.open_loop.has_value() ? answered.due : answered.ended)
      .latency_ns.Record(latency_ns);
  if (options_.open_loop.has_value()) {
    result_.service_ns.Record(service_ns);
  }
  if (answered.is_stream) {
    result_.token_ns.Record(service_ns / std::max<int64_t>(1, answered.tokens));
  }
  if (answered.summary.batch_requests() > 0) {
    CountPhases(answered.summary, service_ns, result_);
  }
}

void Recorder::AddRecord(const CallRecord& record, Time due) {
  if (options_.keeps_records) {
    result_.records.push_back(record);
    recorded_due_.push_back(due);
  }
}

void Recorder::CountMessages(const Lane& lane) {
  result_.first_message_ns.Record(NanosecondsBetween(lane.due(), *lane.first_message()));
  for (const int64_t gap_ns : lane.message_gaps_ns()) {
    result_.message_gap_ns.Record(gap_ns);
  }
}

void Recorder::CountPrefill(int64_t tokens, int64_t cached, Time started, Time now) {
  failures_in_a_row_ = 0;
  answered_at_ = now;
  AddRecord({.is_prompt = true,
             .is_measured = window_.Contains(now),
             .latency_ns = NanosecondsBetween(started, now),
             .tokens = tokens},
            started);
  if (window_.Contains(now)) {
    ++result_.prefills;
    result_.prefill_tokens += tokens;
    result_.cached_tokens += cached;
    result_.first_message_ns.Record(NanosecondsBetween(started, now));
  }
}

void Recorder::CountFailure(const absl::Status& status, Time due, Time started, Time now,
                            bool is_prompt) {
  const bool is_measured = IsMeasured(due, now);
  AddRecord({.is_prompt = is_prompt,
             .code = status.code(),
             .is_measured = is_measured,
             .lag_ns = NanosecondsBetween(due, started),
             .latency_ns = NanosecondsBetween(due, now)},
            due);
  CountIfUnfinished(due, now);
  num_measured_ += is_measured ? 1 : 0;
  ++num_failed_;
  ++failures_in_a_row_;
  FailureTally& tally = result_.failures[absl::StatusCodeToString(status.code())];
  if (tally.count++ == 0) {
    tally.first_text = std::string(status.message());
  }
  if (is_measured) {
    tally.latency_ns.Record(NanosecondsBetween(due, now));
  }
  const bool touches_window = due < window_.end() && now >= window_.start();
  tally.in_window += (options_.open_loop.has_value() ? is_measured : touches_window) ? 1 : 0;
  // A window in which only failures end has its end at the last of them.
  if (window_.Contains(now) || (result_.answers == 0 && IsWithin(is_measured, now))) {
    ++SliceAt(now).errors;
  }
}

bool Recorder::IsWithin(bool is_measured, Time ended) {
  if (!is_measured || !window_.awaits_answers()) {
    return window_.Contains(ended);
  }
  last_awaited_ = std::max(last_awaited_, ended);
  return true;
}

bool Recorder::IsHopeless(Time now) const {
  return failures_in_a_row_ > kMaxFailuresInARow &&
         absl::FromChrono(now - answered_at_) >= options_.patience;
}

void Recorder::Watch(Time now, int64_t in_flight) {
  cpu_.Look(now);
  if (now - reported_at_ < kReportInterval) {
    return;
  }
  ReportProgress(now, in_flight);
  if (control_.stop != nullptr && control_.stop->load() && now < window_.end()) {
    result_.was_stopped = true;
    window_.RequestEnd();
  }
  if (IsSettled(now)) {
    window_.RequestEnd();
  }
}

void Recorder::ReportProgress(Time now, int64_t in_flight) {
  if (control_.on_progress != nullptr) {
    const std::chrono::duration<double> elapsed = now - reported_at_;
    control_.on_progress({.elapsed = absl::FromChrono(now - window_.start()),
                          .answers_per_s = unreported_ns_.count() / elapsed.count(),
                          .p99_ms = Milliseconds(unreported_ns_.Percentile(99.0)),
                          .errors = num_failed_,
                          .in_flight = in_flight});
  }
  reported_at_ = now;
  unreported_ns_ = Histogram();
}

/// Whether the load is stable; judged once after each trial.
bool Recorder::IsSettled(Time now) {
  if (!options_.stability.has_value() ||
      absl::FromChrono(now - window_.start()) < (trials_judged_ + 1) * options_.duration) {
    return false;
  }
  ++trials_judged_;
  FillSeries(window_.start() + absl::ToChronoNanoseconds(trials_judged_ * options_.duration));
  return JudgeStability(result_.series, options_.duration, *options_.stability)
      .is_stable.value_or(false);
}

LoadResult Recorder::Finish() {
  cpu_.Finish(Clock::now());
  result_.client_cpu_share = cpu_.used_share();
  result_.client_wait_share = cpu_.waited_share();
  result_.window = absl::FromChrono(std::max(window_.end(), last_awaited_) - window_.start());
  FillSeries(std::max(window_.end(), last_awaited_));
  result_.started = absl::Now() - absl::FromChrono(Clock::now() - window_.start());
  for (size_t i = 0; i < recorded_due_.size(); ++i) {
    result_.records[i].due_ns = NanosecondsBetween(window_.start(), recorded_due_[i]);
  }
  return std::move(result_);
}

bool Recorder::IsMeasured(Time due, Time now) const {
  return window_.Contains(options_.open_loop.has_value() ? due : now);
}

void Recorder::CountIfUnfinished(Time due, Time ended) {
  if (due < window_.end() && ended >= window_.end()) {
    result_.unfinished_ns.Record(NanosecondsBetween(due, ended));
  }
}

void Recorder::FillSeries(Time end) {
  if (end > window_.start()) {
    SliceAt(end - std::chrono::nanoseconds(1));
  }
}

TimeSlice& Recorder::SliceAt(Time time) {
  return result_.series.At(absl::FromChrono(time - window_.start()));
}

SampleSchedule::SampleSchedule(const LoadOptions& options, const MeasuredWindow& window)
    : options_(options), window_(window), num_requests_(options.requests) {
  const ArrivalTrace* const trace =
      options.open_loop.has_value() ? options.open_loop->arrivals.trace.get() : nullptr;
  if (trace != nullptr) {
    const auto first = std::lower_bound(trace->times.begin(), trace->times.end(),
                                        absl::ToChronoNanoseconds(options.warmup));
    const int64_t num_due = trace->times.end() - first;
    num_requests_ = num_requests_ > 0 ? std::min(num_requests_, num_due) : num_due;
  }
}

bool SampleSchedule::Take(Time now) {
  if (now < window_.start()) {
    return false;
  }
  const int64_t num_before = num_sent_++;
  const int64_t num_kept = num_taken_ - num_given_back_.load(std::memory_order_relaxed);
  if (num_kept >= options_.num_samples) {
    return false;
  }
  // The window ends after a number of requests or after its duration, whichever is first.
  const bool is_due_by_number =
      num_requests_ > 0 && num_before * options_.num_samples >= num_kept * num_requests_;
  const bool is_due_by_time = options_.duration < absl::InfiniteDuration() &&
                              absl::FromChrono(now - window_.start()) * options_.num_samples >=
                                  num_kept * options_.duration;
  if (!is_due_by_number && !is_due_by_time) {
    return false;
  }
  ++num_taken_;
  return true;
}

}  // namespace attention
