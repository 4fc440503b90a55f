#include "server/scheduling/request_queue.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "core/runtime/contain.h"
#include "core/runtime/status_macros.h"
#include "server/scheduling/refusal.h"

namespace attention {
namespace {

using std::chrono::nanoseconds;

// The weight of the latest job in the means.
constexpr double kMeanShare = 0.05;

// Returns until when the job may wait for further jobs of its batch, with time for their work.
TimePoint LatestStartOf(const Job& job) {
  return job.description().deadline - 2 * job.expected_time();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HeldBytes>> RequestQueue::Reserve(const RequestClass& request_class,
                                                                 int64_t bytes, TimePoint now) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(Check({.request_class = request_class,
                         .bytes = bytes,
                         .work = {},
                         .deadline = TimePoint::max(),
                         .now = now}));
  bytes_.Prepare(request_class.account);
  auto held = std::make_unique<HeldBytes>(*this, request_class.account, bytes);
  // Nothing after this throws: ~HeldBytes would wait for the lock that this function holds.
  bytes_.Add(request_class.account, bytes);
  return held;
}

HeldBytes::~HeldBytes() {
  MutexLock lock(queue_.mutex_);
  queue_.bytes_.Remove(account_, bytes_);
}

void RequestQueue::CountEntry(const Entry& entry, int sign) {
  RequestFlow& flow = entry.flow->second;
  const JobDescription& job = entry.job->description();
  const std::string& account = job.request_class.account;
  const int64_t added_ns = entry.standing.added_ns;
  flow.work_ns += sign * added_ns;
  flow.counted_ns += sign * CountedNs(added_ns);
  flow.short_ns += added_ns <= kShortNs ? sign * added_ns : 0;
  flow.bytes += sign * job.size_bytes;
  flow.requests += sign;
  work_ns_.Add(account, sign * added_ns);
  counted_ns_.Add(account, sign * CountedNs(added_ns));
  bytes_.Add(account, sign * job.size_bytes);
  requests_.Add(account, sign);
  rows_ += sign * job.num_rows();
  flows_.Leave(entry.flow);
}

absl::Status RequestQueue::Push(JobPointer job, const WorkEstimate& work, TimePoint now) {
  const JobDescription& description = job->description();
  {
    MutexLock lock(mutex_);
    RETURN_IF_ERROR(Check({.request_class = description.request_class,
                           .key = &description.key,
                           .bytes = description.size_bytes,
                           .work = work,
                           .deadline = description.deadline,
                           .now = now}));
    Insert(std::move(job), work);
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

absl::Status RequestQueue::PushAgain(JobPointer job, const WorkEstimate& work) {
  {
    MutexLock lock(mutex_);
    if (is_closed_) {
      return Draining();
    }
    Insert(std::move(job), work);
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

void RequestQueue::Insert(JobPointer job, const WorkEstimate& work) {
  job->set_expected_time(nanoseconds(work.alone_ns));
  const JobDescription& description = job->description();
  const RequestClass& request_class = description.request_class;
  for (AccountShares* const shares : {&work_ns_, &counted_ns_, &bytes_, &requests_}) {
    shares->Prepare(request_class.account);  // so that counting below does not throw
  }
  const RequestFlows::Iterator own_flow = flows_.Enter(request_class);
  RequestFlow& flow = own_flow->second;
  const double share = flow.last_finish == 0 ? 1 : kMeanShare;  // 1: the first job
  flow.mean_ns += share * (static_cast<double>(work.added_ns) - flow.mean_ns);
  flow.mean_bytes += share * (static_cast<double>(description.size_bytes) - flow.mean_bytes);
  const double start = flows_.StartOf(flow);
  const double finish = start + static_cast<double>(std::max<int64_t>(1, work.added_ns)) /
                                    ShareOf(request_class.priority);
  const Entry entry = {std::move(job), {work.added_ns, finish}, own_flow};
  jobs_.emplace(Order(start, request_class.priority, next_arrival_++), entry);
  flow.last_finish = finish;
  delay_end_ = std::min({delay_end_, LatestStartOf(*entry.job), description.arrival + delay_});
  CountEntry(entry, 1);
}

std::map<RequestQueue::Order, RequestQueue::Entry>::iterator RequestQueue::Remove(
    std::map<Order, Entry>::iterator entry, std::vector<JobPointer>& taken) {
  taken.push_back(entry->second.job);
  CountEntry(entry->second, -1);
  return jobs_.erase(entry);
}

bool RequestQueue::Sweep(TimePoint now) {
  if (now < next_sweep_) {
    return false;
  }
  next_sweep_ = now + kSweepInterval;
  const size_t before = lost_.size();
  for (auto entry = jobs_.begin(); entry != jobs_.end();) {
    entry = IsLost(*entry->second.job, now) ? Remove(entry, lost_) : std::next(entry);
  }
  return lost_.size() > before;
}

std::vector<RequestQueue::JobPointer> RequestQueue::TakeLost(TimePoint now) {
  MutexLock lock(mutex_);
  Sweep(now);
  return std::exchange(lost_, {});
}

std::vector<RequestQueue::JobPointer> RequestQueue::TakeLocked(
    absl::FunctionRef<bool(const Job&, const Standing&)> select) {
  std::vector<JobPointer> taken = std::exchange(lost_, {});
  bool is_first = true;
  for (auto entry = jobs_.begin(); entry != jobs_.end();) {
    if (!select(*entry->second.job, entry->second.standing)) {
      ++entry;
      continue;
    }
    if (std::exchange(is_first, false)) {
      taken_start_ = std::get<0>(entry->first);
      flows_.set_virtual_time(std::max(flows_.virtual_time(), taken_start_));
    }
    try {
      entry = Remove(entry, taken);
    } catch (...) {  // there is no memory for one more
      if (taken.empty()) {
        throw;
      }
      break;
    }
  }
  return taken;
}

std::vector<RequestQueue::JobPointer> RequestQueue::Take(
    absl::FunctionRef<bool(const Job&, const Standing&)> select) {
  MutexLock lock(mutex_);
  return TakeLocked(select);
}

std::vector<RequestQueue::JobPointer> RequestQueue::WaitAndTake(
    const Patience& patience, absl::FunctionRef<bool(const Job&)> select) {
  MutexLock lock(mutex_);
  if (jobs_.empty()) {  // nothing runs either
    flows_.Clear();
  }
  while (jobs_.empty() && lost_.empty() && !is_closed_) {
    changed_.Wait(mutex_);
  }
  delay_ = patience.delay;
  if (!jobs_.empty() && patience.delay > nanoseconds(0)) {
    delay_end_ = TimePoint::max();
    for (const auto& [order, entry] : jobs_) {
      const Job& job = *entry.job;
      delay_end_ =
          std::min({delay_end_, job.description().arrival + patience.delay, LatestStartOf(job)});
    }
    while (!is_closed_ && rows_ < patience.enough_rows && changed_.WaitUntil(mutex_, delay_end_)) {
    }
  }
  return TakeLocked([&](const Job& job, const Standing&) { return select(job); });
}

double RequestQueue::taken_start() const {
  MutexLock lock(mutex_);
  return taken_start_;
}

void RequestQueue::SetVirtualTime(double tag) {
  MutexLock lock(mutex_);
  flows_.set_virtual_time(tag);
}

void RequestQueue::CountEnd(const Job& job, bool is_late, TimePoint now) {
  const JobDescription& description = job.description();
  if (description.deadline == TimePoint::max()) {
    return;
  }
  // Without memory for one more account, its end is not counted.
  ContainVoid("counting the end of a request", [&] {
    MutexLock lock(mutex_);
    spare_.CountEnd(description.request_class.account, is_late, now);
  }).IgnoreError();
}

void RequestQueue::SetRunning(const RunningBatch& running) {
  MutexLock lock(mutex_);
  running_ = running;
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
  return {.requests = requests_.used(),
          .bytes = bytes_.used(),
          .work_ns = work_ns_.used(),
          .counted_ns = counted_ns_.used()};
}

}  // namespace attention
