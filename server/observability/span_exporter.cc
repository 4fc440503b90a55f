#include "server/observability/span_exporter.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"
#include "core/runtime/time_after.h"
#include "server/log/log.h"
#include "server/observability/header_file.h"

namespace attention {
namespace {

using std::chrono::steady_clock;

constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLongestPause = absl::Seconds(10);

bool TakesChance(double ratio) {
  thread_local std::minstd_rand generator{std::random_device()()};
  return ratio >= 1 || std::uniform_real_distribution<double>()(generator) < ratio;
}

std::string TracesUrl(const std::string& endpoint) {
  return absl::StrCat(endpoint, absl::EndsWith(endpoint, "/") ? "" : "/", "v1/traces");
}

// Returns whether the protocol allows to send the batch again.
bool MayRetry(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

SpanExporter::SpanExporter(const SpanExporterOptions& options, std::unique_ptr<HttpPoster> poster)
    : options_(options), poster_(std::move(poster)) {
  batch_.reserve(kMaxBatch);
  thread_ = std::thread([this] { Run(); });
}

absl::StatusOr<std::unique_ptr<SpanExporter>> SpanExporter::Create(
    const SpanExporterOptions& options) {
  RETURN_IF_ERROR(HttpPoster::CheckUrl(options.endpoint));  // without a host, the path would be one
  ASSIGN_OR_RETURN(std::unique_ptr<HttpPoster> poster,
                   HttpPoster::Create(TracesUrl(options.endpoint)));
  return std::unique_ptr<SpanExporter>(new SpanExporter(options, std::move(poster)));
}

SpanExporter::~SpanExporter() {
  Finish();
  thread_.join();
}

void SpanExporter::Finish() {
  {
    MutexLock lock(mutex_);
    is_ending_ = true;
    changed_.NotifyAll();
    const steady_clock::time_point end = TimeAfter(kTimeAtEnd);
    while (!has_ended_ && changed_.WaitUntil(mutex_, end)) {
    }
  }
  poster_->Abort();
}

void SpanExporter::Trace(RequestRecord& record) {
  TraceContext& trace = record.trace;
  if (trace.trace_id.empty() && TakesChance(options_.sample_ratio)) {
    trace = {.trace_id = MakeTraceId(), .is_sampled = true};
  }
  if (!trace.is_sampled) {
    return;
  }
  trace.span_id = MakeSpanId();
  const int64_t now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  MutexLock lock(mutex_);
  if (waiting_.size() == kMaxWaiting || is_ending_) {
    ++statistics_.dropped;
    return;
  }
  waiting_.push_back({record, now});
  if (waiting_.size() == 1 || waiting_.size() == kMaxBatch) {
    changed_.NotifyAll();
  }
}

TraceStatistics SpanExporter::statistics() const {
  MutexLock lock(mutex_);
  return statistics_;
}

bool SpanExporter::TakeBatch() {
  batch_.clear();
  MutexLock lock(mutex_);
  while (waiting_.empty() && !is_ending_) {
    changed_.Wait(mutex_);
  }
  const steady_clock::time_point end = TimeAfter(kMaxDelay);
  while (waiting_.size() < kMaxBatch && !is_ending_ && changed_.WaitUntil(mutex_, end)) {
  }
  const auto last = waiting_.begin() + static_cast<int64_t>(std::min(waiting_.size(), kMaxBatch));
  std::move(waiting_.begin(), last, std::back_inserter(batch_));  // within its capacity
  waiting_.erase(waiting_.begin(), last);
  return !batch_.empty();
}

bool SpanExporter::Sleep(absl::Duration duration) {
  const steady_clock::time_point end = TimeAfter(duration);
  MutexLock lock(mutex_);
  while (!is_ending_ && changed_.WaitUntil(mutex_, end)) {
  }
  return !is_ending_;
}

absl::StatusOr<HttpPoster::Answer> SpanExporter::Post(const std::string& body) {
  std::vector<std::string> headers;
  if (!options_.header_file.empty()) {
    ASSIGN_OR_RETURN(headers, ReadHeaderFile(options_.header_file));
  }
  headers.emplace_back("Content-Type: application/json");
  return poster_->Post(body, headers);
}

void SpanExporter::LogFailureOnce(const std::string& why) {
  if (!std::exchange(is_failing_, true)) {
    Log(LogLevel::kWarning,
        absl::StrCat("traces are dropped until the collector (--otlp-endpoint) accepts them: ",
                     why));
  }
}

int64_t SpanExporter::Send(const std::string& body, int64_t requests) {
  const steady_clock::time_point end = TimeAfter(kMaxRetryTime);
  absl::Duration pause = kFirstPause;
  std::string why;
  do {
    const absl::StatusOr<HttpPoster::Answer> answer = Post(body);
    if (answer.ok() && answer->status / 100 == 2) {
      const RejectedSpans rejected = ReadRejectedSpans(answer->body);
      if (rejected.count > 0) {
        LogFailureOnce(absl::StrCat("it rejected ", rejected.count, " spans: ", rejected.why));
      } else {
        is_failing_ = false;
      }
      return requests - std::clamp<int64_t>(rejected.count, 0, requests);
    }
    why = answer.ok() ? absl::StrCat("it answered ", answer->status)
                      : std::string(answer.status().message());
    if (answer.ok() && !MayRetry(answer->status)) {
      break;
    }
    const absl::Duration asked = answer.ok() ? answer->retry_after : absl::ZeroDuration();
    if (!Sleep(std::clamp(asked, pause, kMaxRetryTime))) {
      break;
    }
    pause = std::min(2 * pause, kLongestPause);
  } while (steady_clock::now() < end);
  LogFailureOnce(why);
  return 0;
}

void SpanExporter::Run() {
  while (TakeBatch()) {
    int64_t sent = 0;
    RunLogged("sending traces",
              [&] { sent = Send(ToOtlpJson(batch_, options_.version), std::ssize(batch_)); });
    MutexLock lock(mutex_);
    statistics_.exported += sent;
    statistics_.dropped += std::ssize(batch_) - sent;
  }
  MutexLock lock(mutex_);
  has_ended_ = true;
  changed_.NotifyAll();
}

}  // namespace attention
