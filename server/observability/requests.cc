#include "server/observability/requests.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/observability/log.h"

namespace attention {
namespace {

// About failures, a second: a flood of them must not fill the disk.
constexpr int64_t kMaxLines = 20;
// Models come and go.
constexpr size_t kMaxModels = 4096;

bool IsRefusal(const absl::Status& status) {
  return absl::IsResourceExhausted(status) || absl::IsUnavailable(status) ||
         absl::IsDeadlineExceeded(status);
}

void Add(const RequestRecord& record, int64_t now_ms, RequestCounts& counts) {
  if (record.status.ok()) {
    ++counts.succeeded;
    counts.receive_ns += record.receive_ns;
    counts.queue_ns += record.queue_ns;
    counts.compute_ns += record.compute_ns;
    counts.send_ns += record.send_ns;
    counts.tokens += record.tokens;
    counts.executions += record.batch_requests > 0 ? 1.0 / record.batch_requests : 0;
    counts.last_ms = now_ms;
    return;
  }
  ++(IsRefusal(record.status) ? counts.refused : counts.failed);
  counts.unsuccessful_ns +=
      record.receive_ns + record.queue_ns + record.compute_ns + record.send_ns;
}

std::string LineOf(const RequestRecord& r, int64_t left_out) {
  const auto milliseconds = [](int64_t ns) {
    return absl::StrFormat("%.3f", static_cast<double>(ns) / 1e6);
  };
  std::string line = absl::StrCat(
      "request id=", r.request_id, " rpc=", r.rpc, " model=", r.model.empty() ? "-" : r.model,
      " code=", absl::StatusCodeToString(r.status.code()), " bytes=", r.request_bytes,
      " tokens=", r.tokens, " receive_ms=", milliseconds(r.receive_ns),
      " queue_ms=", milliseconds(r.queue_ns), " compute_ms=", milliseconds(r.compute_ns),
      " send_ms=", milliseconds(r.send_ns));
  if (r.batch_id > 0) {
    absl::StrAppend(&line, " batch=", r.batch_id, " batch_requests=", r.batch_requests);
  }
  if (!r.tenant.empty()) {
    absl::StrAppend(&line, " tenant=\"", r.tenant, "\"");
  }
  if (!r.traceparent.empty()) {
    absl::StrAppend(&line, " trace=", r.traceparent.substr(3, 32),
                    " parent=", r.traceparent.substr(36, 16));
  }
  if (!r.status.ok()) {
    absl::StrAppend(&line, ": ", std::string(r.status.message()));
  }
  if (left_out > 0) {
    absl::StrAppend(&line, " (", left_out, " lines of the kind left out)");
  }
  // What callers wrote must not look like lines of its own.
  std::replace_if(line.begin(), line.end(), [](char c) { return c >= 0 && c < ' '; }, ' ');
  return line;
}

}  // namespace

bool RequestObserver::TakeLine() {
  const int64_t second = std::chrono::duration_cast<std::chrono::seconds>(
                             std::chrono::steady_clock::now().time_since_epoch())
                             .count();
  if (second != second_) {
    second_ = second;
    lines_ = 0;
  }
  if (lines_ == kMaxLines) {
    ++left_out_;
    return false;
  }
  ++lines_;
  return true;
}

void RequestObserver::OnEnd(const RequestRecord& record) {
  const int64_t now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  const bool is_failure = !record.status.ok() && !absl::IsCancelled(record.status);
  bool is_logged = logged_ == LoggedRequests::kAll;
  int64_t left_out = 0;
  {
    MutexLock lock(mutex_);
    Add(record, now_ms, counts_);
    if (!record.model.empty() && by_model_.size() < kMaxModels) {
      Add(record, now_ms, by_model_[{record.model, record.model_version}]);
    }
    if (is_failure && logged_ == LoggedRequests::kFailed) {
      is_logged = TakeLine();
      left_out = is_logged ? std::exchange(left_out_, 0) : 0;
    }
  }
  if (is_logged) {
    Log(is_failure ? LogLevel::kWarning : LogLevel::kInfo, LineOf(record, left_out));
  }
}

RequestCounts RequestObserver::counts() const {
  MutexLock lock(mutex_);
  return counts_;
}

std::map<std::pair<std::string, int64_t>, RequestCounts> RequestObserver::counts_by_model() const {
  MutexLock lock(mutex_);
  return by_model_;
}

}  // namespace attention
