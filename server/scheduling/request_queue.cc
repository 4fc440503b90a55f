#include "server/scheduling/request_queue.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace attention {

absl::Status RequestQueue::Push(std::shared_ptr<Job> job) {
  const int64_t job_bytes = job->description().size_bytes;
  {
    MutexLock lock(mutex_);
    if (is_closed_) {
      return absl::UnavailableError("the server is draining");
    }
    if (static_cast<int64_t>(jobs_.size()) >= limits_.max_requests) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the queue is full: ", jobs_.size(), " requests wait, at most ",
                       limits_.max_requests, " may (--max-queue-requests)"));
    }
    if (!jobs_.empty() && size_bytes_ + job_bytes > limits_.max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the queue is full: ", size_bytes_, " bytes wait, ", job_bytes,
          " more would pass the limit of ", limits_.max_bytes, " (--max-queue-bytes)"));
    }
    size_bytes_ += job_bytes;
    jobs_.push_back(std::move(job));
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

std::vector<std::shared_ptr<Job>> RequestQueue::WaitAndTake(
    absl::FunctionRef<bool(const Job&)> select) {
  std::vector<std::shared_ptr<Job>> taken;
  MutexLock lock(mutex_);
  while (jobs_.empty() && !is_closed_) {
    changed_.Wait(mutex_);
  }
  std::deque<std::shared_ptr<Job>> left;
  for (std::shared_ptr<Job>& job : jobs_) {
    if (select(*job)) {
      size_bytes_ -= job->description().size_bytes;
      taken.push_back(std::move(job));
    } else {
      left.push_back(std::move(job));
    }
  }
  jobs_.swap(left);
  return taken;
}

void RequestQueue::Close() {
  {
    MutexLock lock(mutex_);
    is_closed_ = true;
  }
  changed_.NotifyAll();
}

}  // namespace attention
