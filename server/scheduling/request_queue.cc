#include "server/scheduling/request_queue.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "core/runtime/status_macros.h"

namespace attention {
namespace {

using std::chrono::nanoseconds;

// A tenant may take so many times what it leaves free (dynamic thresholds: Choudhury & Hahne 1998),
// so that there is always room for another one.
constexpr double kShareOfFree = 4;

// Of the latest job in the means.
constexpr double kMeanShare = 0.05;

// Tenants that have nothing waiting are forgotten beyond these.
constexpr size_t kMaxIdleFlows = 4096;

double ShareOf(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return 100;
    case Priority::kNormal:
      return 10;
    default:
      return 1;
  }
}

int64_t Milliseconds(int64_t ns) { return (ns + 999'999) / 1'000'000; }

}  // namespace

std::string_view Name(Priority priority) {
  switch (priority) {
    case Priority::kHigh:
      return "high";
    case Priority::kNormal:
      return "normal";
    default:
      return "low";
  }
}

int64_t RequestQueue::WaitOf(const Candidate& candidate) const {
  const bool is_short = candidate.work.added_ns <= kShortNs;
  const FlowKey key(candidate.request_class.priority, candidate.request_class.tenant);
  const auto own = flows_.find(key);
  const double start =
      own == flows_.end() ? virtual_time_ : std::max(virtual_time_, own->second.last_finish);
  double waiting_ns = 0;
  for (const auto& [other, flow] : flows_) {
    const auto work_ns = static_cast<double>(is_short ? flow.short_ns : flow.work_ns);
    if (other == key || flow.last_finish <= start) {
      waiting_ns += work_ns;
    } else if (start > virtual_time_) {  // the part of the flow that stands before `start`
      waiting_ns += work_ns * (start - virtual_time_) / (flow.last_finish - virtual_time_);
    }
  }
  const int64_t running_ns = std::max<int64_t>(0, Nanoseconds(busy_until_ - candidate.now));
  if (is_short && running_ns > kShortNs) {  // it passes what runs, which gets its half
    return kShortNs + 2 * static_cast<int64_t>(waiting_ns);
  }
  return running_ns + static_cast<int64_t>(waiting_ns);
}

absl::Status RequestQueue::RefuseFor(const Candidate& candidate, RefusalReason reason,
                                     const std::string& text) const {
  const int64_t wait_ns = WaitOf(candidate);
  const int64_t half_ns = std::min(limits_.max_wait_ns, state_.work_ns) / 2;
  return Refuse(absl::StatusCode::kResourceExhausted, text,
                {.reason = reason,
                 .retry_after_ms = std::max<int64_t>(1, Milliseconds(wait_ns - half_ns)),
                 .estimated_wait_ms = Milliseconds(wait_ns)});
}

absl::Status RequestQueue::CheckFit(const Candidate& candidate) const {
  if (is_closed_) {
    return absl::UnavailableError("the server is draining");
  }
  if (state_.requests >= limits_.max_requests) {
    return RefuseFor(
        candidate, RefusalReason::kQueueRequests,
        absl::StrCat("the queue is full: ", state_.requests, " requests wait, at most ",
                     limits_.max_requests, " may (--max-queue-requests)"));
  }
  if (state_.requests == 0) {
    return absl::OkStatus();
  }
  if (state_.bytes + candidate.bytes > limits_.max_bytes) {
    return RefuseFor(
        candidate, RefusalReason::kQueueBytes,
        absl::StrCat("the queue is full: ", state_.bytes, " bytes wait, ", candidate.bytes,
                     " more would pass the limit of ", limits_.max_bytes, " (--max-queue-bytes)"));
  }
  if (state_.work_ns + candidate.work.added_ns > limits_.max_wait_ns) {
    return RefuseFor(
        candidate, RefusalReason::kQueueWait,
        absl::StrCat("the queue is full: what waits takes about ", Milliseconds(state_.work_ns),
                     " ms, this request ", Milliseconds(candidate.work.added_ns),
                     " ms more, at most ", Milliseconds(limits_.max_wait_ns),
                     " ms may wait (--max-queue-wait)"));
  }
  return absl::OkStatus();
}

absl::Status RequestQueue::CheckShare(const Candidate& candidate) const {
  const RequestClass& request_class = candidate.request_class;
  const auto own = flows_.find({request_class.priority, request_class.tenant});
  if (request_class.tenant.empty() || own == flows_.end() || own->second.requests == 0) {
    return absl::OkStatus();
  }
  const Flow& flow = own->second;
  const auto exceeds = [](int64_t taken, int64_t limit, int64_t used) {
    return static_cast<double>(taken) > kShareOfFree * static_cast<double>(limit - used);
  };
  if (exceeds(flow.bytes + candidate.bytes, limits_.max_bytes, state_.bytes) ||
      exceeds(flow.work_ns + candidate.work.added_ns, limits_.max_wait_ns, state_.work_ns) ||
      exceeds(flow.requests + 1, limits_.max_requests, state_.requests)) {
    return RefuseFor(candidate, RefusalReason::kTenantShare,
                     absl::StrCat("tenant \"", request_class.tenant, "\" has its share of a queue ",
                                  "that fills: ", flow.requests, " requests of ", flow.bytes,
                                  " bytes and about ", Milliseconds(flow.work_ns), " ms wait"));
  }
  return absl::OkStatus();
}

absl::Status RequestQueue::CheckDeadline(const Candidate& candidate) const {
  if (candidate.deadline == TimePoint::max()) {
    return absl::OkStatus();
  }
  const int64_t left_ns = Nanoseconds(candidate.deadline - candidate.now);
  const int64_t wait_ns = WaitOf(candidate);
  if (candidate.work.alone_ns > left_ns) {
    return Refuse(absl::StatusCode::kDeadlineExceeded,
                  absl::StrCat("the request takes about ", Milliseconds(candidate.work.alone_ns),
                               " ms, its deadline is in ", Milliseconds(left_ns), " ms"),
                  {.reason = RefusalReason::kDeadline,
                   .retry_after_ms = Milliseconds(wait_ns),
                   .estimated_wait_ms = Milliseconds(wait_ns)});
  }
  if (wait_ns + candidate.work.alone_ns > left_ns) {
    return RefuseFor(candidate, RefusalReason::kDeadline,
                     absl::StrCat("the request would wait about ", Milliseconds(wait_ns),
                                  " ms and take ", Milliseconds(candidate.work.alone_ns),
                                  " ms, its deadline is in ", Milliseconds(left_ns), " ms"));
  }
  return absl::OkStatus();
}

absl::Status RequestQueue::CheckRoom(const RequestClass& request_class, TimePoint deadline,
                                     TimePoint now) {
  MutexLock lock(mutex_);
  const Candidate mean = {.request_class = request_class,
                          .bytes = static_cast<int64_t>(mean_bytes_),
                          .work = {.added_ns = static_cast<int64_t>(mean_ns_)},
                          .deadline = deadline,
                          .now = now};
  RETURN_IF_ERROR(CheckFit(mean));
  RETURN_IF_ERROR(CheckShare(mean));
  Candidate shortest = mean;
  shortest.work = {};
  return CheckDeadline(shortest);
}

void RequestQueue::Account(const RequestClass& request_class, const Entry& entry, int sign) {
  const FlowKey key(request_class.priority, request_class.tenant);
  Flow& flow = flows_[key];
  const JobDescription& job = entry.job->description();
  flow.work_ns += sign * entry.added_ns;
  flow.short_ns += entry.added_ns <= kShortNs ? sign * entry.added_ns : 0;
  flow.bytes += sign * job.size_bytes;
  flow.requests += sign;
  state_.work_ns += sign * entry.added_ns;
  state_.bytes += sign * job.size_bytes;
  state_.requests += sign;
  tokens_ += sign * job.tokens;
  if (flow.requests == 0 && flow.last_finish <= virtual_time_) {
    flows_.erase(key);
  }
}

absl::Status RequestQueue::Push(JobPointer job, const WorkEstimate& work, TimePoint now) {
  const JobDescription& description = job->description();
  const RequestClass& request_class = description.request_class;
  {
    MutexLock lock(mutex_);
    mean_ns_ += kMeanShare * (static_cast<double>(work.added_ns) - mean_ns_);
    mean_bytes_ += kMeanShare * (static_cast<double>(description.size_bytes) - mean_bytes_);
    const Candidate candidate = {.request_class = request_class,
                                 .bytes = description.size_bytes,
                                 .work = work,
                                 .deadline = description.deadline,
                                 .now = now};
    RETURN_IF_ERROR(CheckFit(candidate));
    RETURN_IF_ERROR(CheckShare(candidate));
    RETURN_IF_ERROR(CheckDeadline(candidate));
    Flow& flow = flows_[{request_class.priority, request_class.tenant}];
    const double start = std::max(virtual_time_, flow.last_finish);
    flow.last_finish = start + static_cast<double>(std::max<int64_t>(1, work.added_ns)) /
                                   ShareOf(request_class.priority);
    const Entry entry = {std::move(job), work.added_ns};
    Account(request_class, entry, 1);
    jobs_.emplace(Order(start, request_class.priority, next_arrival_++), entry);
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

std::vector<RequestQueue::JobPointer> RequestQueue::TakeLocked(
    absl::FunctionRef<bool(const Job&, int64_t)> select) {
  std::vector<JobPointer> taken;
  for (auto entry = jobs_.begin(); entry != jobs_.end();) {
    if (!select(*entry->second.job, entry->second.added_ns)) {
      ++entry;
      continue;
    }
    if (taken.empty()) {
      virtual_time_ = std::max(virtual_time_, std::get<0>(entry->first));
    }
    Account(entry->second.job->description().request_class, entry->second, -1);
    taken.push_back(std::move(entry->second.job));
    entry = jobs_.erase(entry);
  }
  if (jobs_.empty()) {
    flows_.clear();
    virtual_time_ = 0;
  } else if (flows_.size() > kMaxIdleFlows) {
    std::erase_if(flows_, [](const auto& flow) { return flow.second.requests == 0; });
  }
  return taken;
}

std::vector<RequestQueue::JobPointer> RequestQueue::Take(
    absl::FunctionRef<bool(const Job&, int64_t added_ns)> select) {
  MutexLock lock(mutex_);
  return TakeLocked(select);
}

std::vector<RequestQueue::JobPointer> RequestQueue::WaitAndTake(
    const Patience& patience, absl::FunctionRef<bool(const Job&)> select) {
  MutexLock lock(mutex_);
  while (jobs_.empty() && !is_closed_) {
    changed_.Wait(mutex_);
  }
  if (!jobs_.empty() && patience.delay > nanoseconds(0)) {
    const TimePoint end = jobs_.begin()->second.job->description().arrival + patience.delay;
    while (!is_closed_ && tokens_ < patience.enough_tokens && changed_.WaitUntil(mutex_, end)) {
    }
  }
  return TakeLocked([&](const Job& job, int64_t) { return select(job); });
}

void RequestQueue::SetBusyUntil(TimePoint end) {
  MutexLock lock(mutex_);
  busy_until_ = end;
}

void RequestQueue::Close() {
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
  }
  changed_.NotifyAll();
}

QueueState RequestQueue::state() const {
  MutexLock lock(mutex_);
  return state_;
}

}  // namespace attention
